"""The dashboard through AppTest: opening it, asking it, reading it; a family that is never loaded."""

import json
from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "dashboard" / "streamlit_app.py"
HOSTILE = ("<img src=x onerror=alert(1)> 12", "<b>7</b>", "</div><script>1</script>")
MARKDOWN_ELEMENTS = ("markdown", "caption", "error", "warning", "info", "success", "title", "header", "subheader")


def fake_position(i, text, models, length):
    probabilities = [0.91 if k == (length + i) % 10 else 0.01 for k in range(10)]
    told = {"probabilities": probabilities, "digit_mass": 0.5, "entropy_nats": 0.5003, "expected_digit": 4.0}
    return {"index": i, "text": text, "place": None, "weight": None, "models": dict.fromkeys(models, told)}


def open_app(page: str = "", **query: str) -> AppTest:
    """The app as a browser opens it by an address; `page` is a file of the views."""
    app = AppTest.from_file(str(APP), default_timeout=60)
    if page:
        app.switch_page(f"views/{page}.py")
    for key, value in query.items():
        app.query_params[key] = value
    app.run()
    assert_healthy(app)
    return app


def address(app) -> dict[str, str]:
    """What the address of the page holds."""
    return {key: value if isinstance(value, str) else value[-1] for key, value in app.query_params.items()}


def assert_healthy(app):
    assert not app.exception, [e.message for e in app.exception]


def ask(app, prompt):
    app.text_input(key="prompt_box").set_value(prompt)
    app.button(key="FormSubmitter:ask-Show digits").click().run()
    assert_healthy(app)
    return app


def figures(app) -> dict:
    """Plotly figures on the page, by their key."""
    found = {}
    for element in app.get("plotly_chart"):
        spec = json.loads(element.proto.spec)
        found[element.proto.id.split("-", 2)[2]] = spec  # "$$ID-<hash>-<key>"
    return found


def texts_read_as_markup(app) -> str:
    return "\n".join(str(element.value) for kind in MARKDOWN_ELEMENTS for element in app.get(kind))
