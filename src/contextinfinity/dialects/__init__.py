"""How other vendors' clients speak: their requests read, their answers written. Plain values in, plain values out."""
