modelname = "groundingdino"
text_encoder_type = "bert-base-uncased"
