"""What goes wrong with what a caller gave."""


class Error(Exception):
    """One line: `stage: subject: what is wrong, got G, want W; what to do`.

    stage: "pt2", "prepare", "lower", "session", ...; subject: the file, node or input that it is
    about, "" where nobody knew one; message: the rest.
    """

    def __init__(self, stage: str, subject: str, message: str):
        super().__init__(f"{stage}: {subject}: {message}" if subject else f"{stage}: {message}")
        self.stage = stage
        self.subject = subject
        self.message = message

    def __reduce__(self):
        return type(self), (self.stage, self.subject, self.message)
