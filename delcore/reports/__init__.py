"""Reports on finished evaluations, as Markdown and as one HTML page.

`report` reads the runs and writes the files, `sections` makes their parts, with numbers written by `cells` and others'
numbers from `published`, and `markup` turns parts into text:

    delcore evaluate --report runs/gsm8k-mle runs/gsm8k-del
"""
