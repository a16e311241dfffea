"""The page Loss lab through AppTest: ten weights, knobs, tabs, links, take-aways."""

import contextlib
import io

import pytest

from tests.pages_for_tests import address, assert_healthy, figures, open_app

pytestmark = pytest.mark.usefixtures("empty_caches")
ONE_TO_FOUR = "1, 2, 3, 4, 0, 0, 0, 0, 0, 0"


@pytest.fixture
def lab():
    return open_app("loss_lab")


def test_loss_lab_shows_the_equilibria_of_the_design_law(lab):
    table = lab.dataframe[0].value.set_index("name")
    assert table.loc["mle", "entropy_nats"] == pytest.approx(1.2712, abs=1e-3)
    assert table.loc["mixce", "entropy_nats"] == pytest.approx(1.0464, abs=1e-3)
    assert table.loc["dist2", "entropy_nats"] == pytest.approx(1.3093, abs=1e-3)
    assert table.loc["del", "entropy_nats"] == pytest.approx(1.2885, abs=1e-3)
    assert set(table["attained"]) == {"reached"}
    assert len(lab.get("plotly_chart")) == 2  # one figure, wide and narrow


def test_loss_lab_slider_moves_only_its_loss(lab):
    before = lab.dataframe[0].value.set_index("name")["entropy_nats"]
    lab.slider(key="dist2_alpha").set_value(1.0).run()
    assert_healthy(lab)
    after = lab.dataframe[0].value.set_index("name")["entropy_nats"]
    assert after["dist2"] == pytest.approx(1.4586, abs=1e-3)
    assert (after.drop("dist2") == before.drop("dist2")).all()


def test_loss_lab_says_that_the_distance_term_has_no_equilibrium(lab):
    lab.toggle(key="distance").set_value(True).run()
    assert_healthy(lab)
    assert "no equilibrium" in lab.warning[0].value
    assert lab.dataframe[0].value.set_index("name").loc["del", "attained"] == "none"


@pytest.mark.parametrize("law", ["flat", "two peaks", "falling", "sure of 4", "even"])
def test_loss_lab_takes_every_law(lab, law):
    lab.selectbox(key="law_preset").set_value(law).run()
    assert_healthy(lab)
    assert not lab.error


def test_loss_lab_averages_over_the_law(lab):
    lab.selectbox(key="true_digit").set_value("law").run()
    assert_healthy(lab)
    gradient = lab.dataframe[0].value.set_index("name").loc["mle", "gradient"]
    assert max(map(abs, gradient)) < 2e-3, "the prediction is the law, where the expected gradient of MLE vanishes"


# ---------------------------------------------------------------- ten weights


def test_typed_weights_are_normalised_and_move_the_sliders(lab):
    lab.text_input(key="law_text").set_value(ONE_TO_FOUR).run()
    assert_healthy(lab)
    assert [lab.slider(key=f"law_{k}").value for k in range(4)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert lab.selectbox(key="law_preset").value == "your own"
    assert lab.dataframe[0].value.set_index("name").loc["mle", "entropy_nats"] == pytest.approx(1.2799, abs=1e-3)


def test_dragged_weight_changes_the_law_and_the_line(lab):
    lab.slider(key="law_0").set_value(1.0).run()
    assert_healthy(lab)
    assert lab.text_input(key="law_text").value.startswith("1, 0.01, ")
    probabilities = lab.dataframe[0].value.set_index("name").loc["mle", "probabilities"]
    assert probabilities[0] == pytest.approx(1 / 1.99, abs=1e-4)


@pytest.mark.parametrize("line", ["1, 2", "a, b", "", "-1" + ", 1" * 9, "nan" + ", 1" * 9, "0" + ", 0" * 9])
def test_line_that_is_no_ten_weights_is_told_and_changes_nothing(lab, line):
    lab.text_input(key="law_text").set_value(line).run()
    assert_healthy(lab)
    assert "Type ten numbers" in lab.warning[0].value or "Ten numbers" in lab.warning[0].value
    assert lab.dataframe[0].value.set_index("name").loc["mle", "entropy_nats"] == pytest.approx(1.2712, abs=1e-3)


def test_all_weights_at_zero_are_a_sentence(lab):
    for k in range(10):
        lab.slider(key=f"law_{k}").set_value(0.0)
    lab.run()
    assert_healthy(lab)
    assert "not all 0" in lab.warning[0].value


def test_prediction_of_its_own_has_its_values(lab):
    app = open_app("loss_lab", edited="Prediction p̂", same="0", predicted=",".join(["0.1"] * 10))
    assert app.dataframe[0].value.set_index("name").loc["ntl_was", "digit_term"] == pytest.approx(0.3 * 3.1)
    app.slider(key="predicted_7").set_value(1.0).run()
    assert_healthy(app)
    assert app.dataframe[0].value.set_index("name").loc["mle", "value"] < 0.7


# ---------------------------------------------------------------- tabs


def test_prediction_tab_shows_gradients_and_targets():
    app = open_app("loss_lab", tab="At this prediction")
    names = {key.rpartition("-")[0] for key in figures(app)}
    assert names == {"gradients", "targets"}
    dist2 = [t for t in figures(app)["targets-4"]["data"] if t["name"] == "DIST2Loss" and t["type"] == "bar"][0]
    assert len(figures(app)["targets-4"]["data"]) > 14 and dist2


def test_steps_tab_has_a_frame_for_each_step():
    app = open_app("loss_lab", tab="Gradient steps", steps="10", rate="0.5")
    spec = figures(app)["steps-4"]
    assert [frame["name"] for frame in spec["frames"]] == [str(k) for k in range(11)]
    assert len(spec["frames"][0]["data"]) == len(spec["data"]), "what a frame leaves out would vanish"
    assert [step["args"][0] for step in spec["layout"]["sliders"][0]["steps"]] == [[str(k)] for k in range(11)]


@pytest.mark.parametrize(("settings", "late"), [({}, True), ({"aim": "digit"}, False), ({"distance": "1"}, False)])
def test_steps_tab_names_the_losses_that_have_not_arrived(settings, late):
    app = open_app("loss_lab", tab="Gradient steps", **settings)
    told = [c.value for c in app.caption if c.value.startswith("Not there yet")]
    assert any("DEL (" in text for text in told) is late
    assert not any("MLE (" in text for text in told), "it starts at its own equilibrium"


def test_level_tab_shows_the_penalty_running_off():
    app = open_app("loss_lab", tab="DEL's level")
    lines = {trace["name"]: trace for trace in figures(app)["levels"]["data"]}
    assert set(lines) == {"DEL", "DEL times the distance"}


@pytest.mark.parametrize("place", ["hundreds", "tens", "units", "tenths", "hundredths", "own"])
def test_place_sets_the_weight_of_del(place):
    app = open_app("loss_lab", place=place, u="1.5")
    u = {"hundreds": 6, "tens": 4, "units": 2, "tenths": 1.02**-2, "hundredths": 1.02**-3, "own": 1.5}[place]
    plain = open_app("loss_lab").dataframe[0].value.set_index("name").loc["del", "digit_term"]
    weighed = app.dataframe[0].value.set_index("name").loc["del", "digit_term"]
    assert weighed == pytest.approx(u * plain, rel=1e-4)


# ---------------------------------------------------------------- the address, and what leaves the page


def test_link_opened_elsewhere_shows_exactly_the_same(lab):
    lab.text_input(key="law_text").set_value(ONE_TO_FOUR)
    lab.slider(key="del_alpha").set_value(0.37)
    lab.slider(key="tau").set_value(2.5)
    lab.selectbox(key="bce").set_value("conditional")
    lab.selectbox(key="true_digit").set_value(3).run()
    again = open_app("loss_lab", **address(lab))
    assert not again.warning and address(again) == address(lab)
    assert again.dataframe[0].value.astype(str).equals(lab.dataframe[0].value.astype(str))
    assert figures(again) == figures(lab)


@pytest.mark.parametrize(
    "bad",
    [
        {"law": "1,2,3"},
        {"law": "5,1,1,1,1,1,1,1,1,1"},
        {"law": "0,0,0,0,0,0,0,0,0,0"},
        {"tau": "0"},
        {"bce": "<b>"},
        {"true_digit": "10"},
    ],
)
def test_bad_entry_of_a_link_is_one_sentence_and_the_page_opens(bad):
    app = open_app("loss_lab", eta="0.25", **bad)
    assert len(app.warning) == 1 and next(iter(bad)) in app.warning[0].value
    assert app.slider(key="eta").value == 0.25 and not set(bad) & set(address(app))
    assert figures(app)


def test_copied_python_gives_the_numbers_of_the_page():
    app = open_app("loss_lab", tau="2.5", distance="1", place="tens")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(app.get("code")[0].value, "copied", "exec"), {})
    told = {
        line.split()[0]: (float(line.split()[2][:-1]), float(line.split()[4])) for line in out.getvalue().splitlines()
    }
    table = app.dataframe[0].value.set_index("name")
    for name, (value, entropy) in told.items():
        assert (value, entropy) == pytest.approx((table.loc[name, "value"], table.loc[name, "entropy_nats"]), abs=1e-4)
    assert len(told) == 7
