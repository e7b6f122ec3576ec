"""The shapes that a whole log dir shows: symptoms go in, and a diagnosis comes out, one module a family of shapes."""
