"""Measurements that the dashboard and the notebooks show: frozen results with units and provenance, never figures.

Each name below is loaded from its module when it is first used, so reading a saved record needs no torch.
"""

from typing import TYPE_CHECKING

from delcore._lazy import lazy_names

if TYPE_CHECKING:
    from delcore.analysis.calibration import measure_calibration
    from delcore.analysis.criteria import fit_criteria
    from delcore.analysis.digit_measures import MEASURES, measure_confusion, measure_digits_by, measure_offsets
    from delcore.analysis.directions import directions_of, read_similarity
    from delcore.analysis.divergences import Divergences, HumpFit, compare_laws, fit_hump
    from delcore.analysis.embeddings import CONTEXTS, generated_contexts, load_table, read_states
    from delcore.analysis.gaps import EntropyGap, judge_gap, measure_gap_by, measure_law_gap
    from delcore.analysis.held_levels import scan_held_levels
    from delcore.analysis.loss_paths import LevelScan, LossPath, follow_loss, scan_level
    from delcore.analysis.numbers import NumberReading, NumberToken, read_numbers
    from delcore.analysis.outcomes import (
        Calibration,
        CriterionFits,
        DigitEmbeddings,
        DigitSimilarity,
        EquilibriumScan,
        PcaMap,
        PlaceWeights,
        TsneMap,
    )
    from delcore.analysis.places import measure_place_weights
    from delcore.analysis.predictions import DigitPredictions, predict_digits
    from delcore.analysis.projection import project_pca, project_tsne
    from delcore.analysis.records import (
        KnownLaw,
        entropy_nats,
        known_law,
        left_contexts,
        tabulate_position,
        tabulate_record,
    )
    from delcore.analysis.results import Axis, Measured, Provenance
    from delcore.analysis.scans import equilibrium_gaps, scan_equilibria
    from delcore.analysis.sharpness import Sharpness, measure_sharpness, sample_digits, temper_law
    from delcore.analysis.similarity import measure_similarity
    from delcore.analysis.single_loss import LossAt, measure_loss_at, scan_pull
    from delcore.analysis.strength import Strength, match_alphas, measure_strength

_HOMES = {
    "Axis": "results",
    "CONTEXTS": "embeddings",
    "Calibration": "outcomes",
    "CriterionFits": "outcomes",
    "DigitEmbeddings": "outcomes",
    "DigitPredictions": "predictions",
    "DigitSimilarity": "outcomes",
    "Divergences": "divergences",
    "EntropyGap": "gaps",
    "EquilibriumScan": "outcomes",
    "HumpFit": "divergences",
    "KnownLaw": "records",
    "LevelScan": "loss_paths",
    "LossAt": "single_loss",
    "LossPath": "loss_paths",
    "MEASURES": "digit_measures",
    "Measured": "results",
    "NumberReading": "numbers",
    "NumberToken": "numbers",
    "PcaMap": "outcomes",
    "PlaceWeights": "outcomes",
    "Provenance": "results",
    "Sharpness": "sharpness",
    "Strength": "strength",
    "TsneMap": "outcomes",
    "compare_laws": "divergences",
    "directions_of": "directions",
    "entropy_nats": "records",
    "equilibrium_gaps": "scans",
    "fit_criteria": "criteria",
    "fit_hump": "divergences",
    "follow_loss": "loss_paths",
    "generated_contexts": "embeddings",
    "judge_gap": "gaps",
    "known_law": "records",
    "left_contexts": "records",
    "load_table": "embeddings",
    "match_alphas": "strength",
    "measure_calibration": "calibration",
    "measure_confusion": "digit_measures",
    "measure_digits_by": "digit_measures",
    "measure_gap_by": "gaps",
    "measure_law_gap": "gaps",
    "measure_loss_at": "single_loss",
    "measure_offsets": "digit_measures",
    "measure_place_weights": "places",
    "measure_sharpness": "sharpness",
    "measure_similarity": "similarity",
    "measure_strength": "strength",
    "predict_digits": "predictions",
    "project_pca": "projection",
    "project_tsne": "projection",
    "read_numbers": "numbers",
    "read_similarity": "directions",
    "read_states": "embeddings",
    "sample_digits": "sharpness",
    "scan_equilibria": "scans",
    "scan_held_levels": "held_levels",
    "scan_level": "loss_paths",
    "scan_pull": "single_loss",
    "tabulate_position": "records",
    "tabulate_record": "records",
    "temper_law": "sharpness",
}

__all__ = [
    "Axis",
    "CONTEXTS",
    "Calibration",
    "CriterionFits",
    "DigitEmbeddings",
    "DigitPredictions",
    "DigitSimilarity",
    "Divergences",
    "EntropyGap",
    "EquilibriumScan",
    "HumpFit",
    "KnownLaw",
    "LevelScan",
    "LossAt",
    "LossPath",
    "MEASURES",
    "Measured",
    "NumberReading",
    "NumberToken",
    "PcaMap",
    "PlaceWeights",
    "Provenance",
    "Sharpness",
    "Strength",
    "TsneMap",
    "compare_laws",
    "directions_of",
    "entropy_nats",
    "equilibrium_gaps",
    "fit_criteria",
    "fit_hump",
    "follow_loss",
    "generated_contexts",
    "judge_gap",
    "known_law",
    "left_contexts",
    "load_table",
    "match_alphas",
    "measure_calibration",
    "measure_confusion",
    "measure_digits_by",
    "measure_gap_by",
    "measure_law_gap",
    "measure_loss_at",
    "measure_offsets",
    "measure_place_weights",
    "measure_sharpness",
    "measure_similarity",
    "measure_strength",
    "predict_digits",
    "project_pca",
    "project_tsne",
    "read_numbers",
    "read_similarity",
    "read_states",
    "sample_digits",
    "scan_equilibria",
    "scan_held_levels",
    "scan_level",
    "scan_pull",
    "tabulate_position",
    "tabulate_record",
    "temper_law",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
