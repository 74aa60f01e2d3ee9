"""Methods of the papers, each loaded when it is chosen: the rest of the product imports none."""
