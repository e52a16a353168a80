infq quantize --bitz 4 model
