// Starts Swagger UI on the page of the API (console/http/documentation.py).
const csrf = () => document.cookie.match(/(?:^|; )(?:__Host-)?qmq_csrf=([^;]*)/)?.[1] ?? "";
SwaggerUIBundle({
  url: "/api/v1/openapi.yaml",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (request.method !== "GET") request.headers["X-CSRFToken"] = csrf();
    return request;
  },
});
