infq quantize --bits 4 no/such/model
