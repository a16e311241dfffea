"""The dashboard: `delcore dashboard`, or `streamlit run dashboard/streamlit_app.py`.

Only navigation. Streamlit puts this file's folder on the path, so pages import `cache` and `parts` from beside it.
"""

import parts
import streamlit as st

st.set_page_config(page_title="delcore", page_icon=":material/bar_chart:", layout="wide")
st.html(parts.STYLE)

page = st.navigation(
    [
        st.Page("pages/explore.py", title="Explore", icon=":material/search:", default=True),
        st.Page("pages/loss_lab.py", title="Loss lab", icon=":material/science:", url_path="loss_lab"),
    ],
    position="top",
)
page.run()
