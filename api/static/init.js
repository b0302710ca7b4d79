// validatorUrl: null keeps Swagger UI from sending the document to a service elsewhere.
window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [function () { return { components: { Topbar: function () { return null; } } }; }],
    layout: "StandaloneLayout",
  });
};
