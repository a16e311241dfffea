"""The experiments behind the repository's numbers, each one command; a finished part is kept and passed over.

python -m delcore.studies losses|ablations|alpha --work runs/studies --out notebooks/studies
python -m delcore.studies embeddings --model SmolLM2-135M-Instruct.gguf --out notebooks/studies
python -m delcore.studies smollm2 --help
python -m delcore.studies claims --out notebooks/studies
"""
