"""The dashboard: `delcore dashboard`, or `streamlit run dashboard/streamlit_app.py`.

Only navigation. Streamlit puts this file's folder on the path, so pages import `cache` and `parts` from beside it.
Their folder is not called `pages`: where one of this name exists, a new server runs a page that is opened by its
address without this script, and without its style.
"""

from pathlib import Path

import parts
import streamlit as st

ICON = Path(__file__).with_name("icon.svg")  # a browser asks Google for a material icon here

st.set_page_config(page_title="delcore", page_icon=ICON, layout="wide")
st.html(parts.STYLE)

page = st.navigation(
    [
        st.Page("views/explore.py", title="Explore", icon=":material/search:", default=True),
        st.Page("views/loss_lab.py", title="Loss lab", icon=":material/science:", url_path="loss_lab"),
        st.Page("views/embeddings.py", title="Embeddings", icon=":material/scatter_plot:", url_path="embeddings"),
        st.Page("views/results.py", title="Results", icon=":material/fact_check:", url_path="results"),
    ],
    position="top",
)
page.run()
