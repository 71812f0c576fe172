"""The flags of an installed SGLang: read from its source, resolved as argparse would, and checked. Pure."""
