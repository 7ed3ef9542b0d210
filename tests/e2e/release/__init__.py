"""The release: what is built for it, the workflows that publish it, and the files that people meet first."""
