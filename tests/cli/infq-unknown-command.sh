infq squeeze model
