"""What makes and weighs an encoder. The plugin never imports it, and its wheel has no place for it: it comes with
an editable installation of the checkout, `pip install -c constraints.txt -e '.[training]'`, and runs from any
folder."""
