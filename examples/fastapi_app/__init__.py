"""FastAPI with PyQMQ: `uvicorn examples.fastapi_app.main:app`."""
