import ts from "typescript";

/** A text that code asks for. `pattern` stands for all keys it may mean: holes of a template are `*`. */
export interface Use {
  file: string;
  namespace: string;
  pattern: string;
}

/**
 * What one file says: keys it asks for, and every literal in it, for keys that are handed on before they are asked for.
 */
export interface Found {
  uses: Use[];
  literals: Set<string>;
  namespaces: Set<string>;
}

/** The name that a component's `t` has in a file, to its namespace, by the function it is declared in. */
function namespaceOf(call: ts.CallExpression): string {
  const [first] = call.arguments;
  if (first && ts.isStringLiteral(first)) return first.text;
  if (first && ts.isArrayLiteralExpression(first)) {
    const [main] = first.elements;
    if (main && ts.isStringLiteral(main)) return main.text;
  }
  return "common";
}

function scopeOf(node: ts.Node): ts.Node {
  let scope = node.parent;
  while (!ts.isFunctionLike(scope) && !ts.isSourceFile(scope)) scope = scope.parent;
  return scope;
}

/** All texts that an expression may stand for, as patterns; null when it says nothing about them. */
function patterns(node: ts.Expression): string[] | null {
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isParenthesizedExpression(node)) return patterns(node.expression);
  if (ts.isArrayLiteralExpression(node)) {
    const all = node.elements.map(patterns);
    return all.every((some) => some !== null) ? all.flat() : null;
  }
  if (ts.isConditionalExpression(node)) {
    const [yes, no] = [patterns(node.whenTrue), patterns(node.whenFalse)];
    return yes && no ? [...yes, ...no] : null;
  }
  if (ts.isTemplateExpression(node)) {
    const text = node.head.text + node.templateSpans.map((span) => `*${span.literal.text}`).join("");
    // A hole alone says nothing.
    return text === "*" ? null : [text];
  }
  return null;
}

/**
 * Read a file's uses of texts from its syntax: `useTranslation("ns")`, the `t` it gives, and what that is called with.
 */
export function textKeys(file: string, source: string): Found {
  const root = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found: Found = { uses: [], literals: new Set(), namespaces: new Set() };
  const scopes = new Map<ts.Node, Map<string, string>>();
  const declare = (node: ts.Node) => {
    if (
      ts.isVariableDeclaration(node) &&
      node.initializer &&
      ts.isCallExpression(node.initializer) &&
      ts.isIdentifier(node.initializer.expression) &&
      node.initializer.expression.text === "useTranslation" &&
      ts.isObjectBindingPattern(node.name)
    ) {
      const namespace = namespaceOf(node.initializer);
      found.namespaces.add(namespace);
      const names = scopes.get(scopeOf(node)) ?? new Map<string, string>();
      for (const element of node.name.elements) {
        const from = element.propertyName ?? element.name;
        if (ts.isIdentifier(from) && from.text === "t" && ts.isIdentifier(element.name)) {
          names.set(element.name.text, namespace);
        }
      }
      scopes.set(scopeOf(node), names);
    }
    ts.forEachChild(node, declare);
  };
  declare(root);
  /** The namespace of a name here; "" for a `t` that was handed in, undefined for what is none. */
  const known = (name: string, node: ts.Node): string | undefined => {
    for (let scope = scopeOf(node); ; scope = scopeOf(scope)) {
      const namespace = scopes.get(scope)?.get(name);
      if (namespace !== undefined) return namespace;
      if (ts.isSourceFile(scope)) return name === "t" ? "" : undefined;
    }
  };
  const look = (node: ts.Node) => {
    if (ts.isStringLiteralLike(node)) found.literals.add(node.text);
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      const namespace = known(node.expression.text, node);
      const [key] = node.arguments;
      for (const pattern of (namespace !== undefined && key && patterns(key)) || []) {
        const colon = pattern.indexOf(":");
        found.uses.push(
          colon > 0
            ? { file, namespace: pattern.slice(0, colon), pattern: pattern.slice(colon + 1) }
            : { file, namespace: namespace ?? "", pattern },
        );
      }
    }
    ts.forEachChild(node, look);
  };
  look(root);
  return found;
}
