"""The paper's reproduction: data sets, protocols, tables and figures, and what the released code does.

Nothing is loaded here, so that a command's help need not wait for torch.
"""
