"""Results: the claims with their figures, training runs, and what models answered."""

import benchmark_runs
import findings
import links
import streamlit as st
from training_runs import show_training

SECTIONS = {
    "Claims": findings.show_claims,
    "Training runs": show_training,
    "Benchmarks": benchmark_runs.show_benchmarks,
}
PARAMETERS = {"section": links.choice(list(SECTIONS)), **findings.parameters(), **benchmark_runs.PARAMETERS}

links.restore("results", PARAMETERS)
st.header("What came out?", anchor=False)
section = st.segmented_control("Section", list(SECTIONS), key="section", required=True, label_visibility="collapsed")
SECTIONS[section]()
links.publish("results", PARAMETERS)
