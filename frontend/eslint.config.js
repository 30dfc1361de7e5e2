import js from "@eslint/js";
import importX from "eslint-plugin-import-x";
import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";
import { readdirSync } from "node:fs";
import { defineConfig } from "eslint/config";

// app -> features -> shared -> live, api, ui, format, i18n: what stands lower never looks up, and no feature looks at
// another.
const features = readdirSync(new URL("./src/features", import.meta.url));
const zones = [
  { target: "./src/{api,live,ui,format,i18n}", from: "./src/{app,features,shared}" },
  { target: "./src/shared", from: "./src/{app,features}" },
  { target: "./src/features", from: "./src/app" },
  ...features.map((name) => ({
    target: `./src/features/${name}`,
    from: "./src/features",
    except: [`./${name}`],
  })),
];

export default defineConfig(
  { ignores: ["dist", "public", "src/api/schema.gen.ts", "*.js", "*.cjs"] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  jsxA11y.flatConfigs.strict,
  reactHooks.configs.flat.recommended,
  {
    plugins: { "import-x": importX },
    settings: { "import-x/resolver": { typescript: true } },
    languageOptions: {
      parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "import-x/no-restricted-paths": ["error", { zones }],
      "import-x/no-cycle": "error",
      // Prettier wraps code, but no comments. A directive has to be one line.
      "max-len": [
        "error",
        {
          code: 120,
          ignoreStrings: true,
          ignoreTemplateLiterals: true,
          ignoreRegExpLiterals: true,
          ignorePattern: "eslint-disable",
        },
      ],
      // Files of tests share their modules (vite.config.ts): one that another file has loaded is not replaced any more.
      "no-restricted-properties": ["error", ...["mock", "doMock"].map((property) => ({ object: "vi", property }))],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
    },
  },
);
