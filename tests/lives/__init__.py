"""Lives of a log dir: a seed draws the steps, a model judges what each of them leaves."""
