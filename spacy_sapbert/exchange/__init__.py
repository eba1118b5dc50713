"""Exchange formats: linked documents go out to FHIR, OMOP, brat and others, and annotated ones come back."""
