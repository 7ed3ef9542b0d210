"""What the functions of expressions do: by overload, `implementation(run, *arguments)`."""
