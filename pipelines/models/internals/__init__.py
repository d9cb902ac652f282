"""What the layers of a model in this process hold while it reads a question; endpoints show none of
it."""
