"""Results: the claims with their figures, training runs, and what models answered."""

import links
import streamlit as st
from benchmark_runs import show_benchmarks
from findings import show_claims
from training_runs import show_training

SECTIONS = {"Claims": show_claims, "Training runs": show_training, "Benchmarks": show_benchmarks}
PARAMETERS = {"section": links.choice(list(SECTIONS))}

links.restore("results", PARAMETERS)
st.header("What came out?", anchor=False)
section = st.segmented_control("Section", list(SECTIONS), key="section", required=True, label_visibility="collapsed")
SECTIONS[section]()
links.publish("results", PARAMETERS)
