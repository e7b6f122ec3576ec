"""What makes the generated parts of the documents, and what checks the documents."""
