import "@/ui/message/tree.css";
import { useClipboard } from "@mantine/hooks";
import { createContext, useContext, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { readable } from "@/ui/message/decode";
import { childrenOf, hasChildren, openAtFirst, pathOf, rootOf, type JsonNode } from "@/ui/message/tree";

/** Children that are shown at a time. */
const CHILDREN_MAX = 100;
/** Characters of a value, or of what is folded, on its line. */
const VALUE_CHARS_MAX = 500;
const FOLDED_CHARS_MAX = 80;

interface Tree {
  text: string;
  openAtFirst: ReadonlySet<number>;
  copied: string | null;
  copy: (path: string) => void;
}
const TreeContext = createContext<Tree | null>(null);

/** JSON as a tree, folded where it is long. A click on a key copies its path below `name`, as filters take it. */
export function JsonTree({ text, name }: { text: string; name: string }) {
  const { t } = useTranslation("message");
  const clipboard = useClipboard({ timeout: 1500 });
  const [path, setPath] = useState("");
  const root = useMemo(() => rootOf(text), [text]);
  const opened = useMemo(() => openAtFirst(text, CHILDREN_MAX), [text]);
  const copied = clipboard.copied ? path : null;
  const tree: Tree = {
    text,
    openAtFirst: opened,
    copied,
    copy: (next) => {
      setPath(next);
      clipboard.copy(next);
    },
  };
  return (
    <TreeContext.Provider value={tree}>
      <ul className="json-tree">
        <Line node={root} path={name} />
      </ul>
      <span className="sr-only" role="status">
        {copied !== null && t("body.path_copied", { path: copied })}
      </span>
    </TreeContext.Provider>
  );
}

function useTree(): Tree {
  const tree = useContext(TreeContext);
  if (!tree) throw new Error("a line of no tree");
  return tree;
}

/** A value with its key; an object or list can be folded. */
function Line({ node, path }: { node: JsonNode; path: string }) {
  const { t } = useTranslation("message");
  const { text, openAtFirst } = useTree();
  const [isOpen, setOpen] = useState(openAtFirst.has(node.begin));
  const isFolding = hasChildren(text, node);
  const brackets = node.kind === "object" ? "{}" : "[]";
  return (
    <li>
      {isFolding && (
        <button
          type="button"
          className="json-fold"
          aria-expanded={isOpen}
          aria-label={t(isOpen ? "body.fold" : "body.unfold", { path: path || "JSON" })}
          onClick={() => setOpen(!isOpen)}
        />
      )}
      {node.key !== null && <Key name={node.key} path={path} />}
      {!isFolding && <Value node={node} />}
      {isFolding && !isOpen && (
        <button type="button" className="json-folded" tabIndex={-1} aria-hidden onClick={() => setOpen(true)}>
          {cut(text, node, FOLDED_CHARS_MAX)}
        </button>
      )}
      {isFolding && isOpen && (
        <>
          <span className="json-mark">{brackets[0]}</span>
          <Below node={node} path={path} />
          <span className="json-mark">{brackets[1]}</span>
        </>
      )}
    </li>
  );
}

/** The children of an object or list, some at a time. */
function Below({ node, path }: { node: JsonNode; path: string }) {
  const { t } = useTranslation("message");
  const { text } = useTree();
  const [shown, setShown] = useState(() => childrenOf(text, node, CHILDREN_MAX));
  const { nodes, next } = shown;
  return (
    <ul>
      {nodes.map((child) => (
        <Line key={child.begin} node={child} path={pathOf(path, child.key ?? "")} />
      ))}
      {next && (
        <li>
          <button
            type="button"
            className="json-more"
            onClick={() => {
              const more = childrenOf(text, node, CHILDREN_MAX, next);
              setShown({ nodes: [...nodes, ...more.nodes], next: more.next });
            }}
          >
            {t("body.more", { count: nodes.length })}
          </button>
        </li>
      )}
    </ul>
  );
}

function Key({ name, path }: { name: string | number; path: string }) {
  const { t } = useTranslation("message");
  const { copied, copy } = useTree();
  return (
    <>
      <button
        type="button"
        className="json-key"
        data-hint={copied === path ? t("body.path_copied", { path }) : t("body.copy_path", { path })}
        aria-label={t("body.copy_path", { path })}
        onClick={() => copy(path)}
      >
        {name}
      </button>
      <span className="json-mark">: </span>
    </>
  );
}

function Value({ node }: { node: JsonNode }) {
  const { text } = useTree();
  return <span className={`json-${node.kind}`}>{cut(text, node, VALUE_CHARS_MAX)}</span>;
}

function cut(text: string, { begin, end }: JsonNode, charsMax: number): string {
  return readable(end - begin > charsMax ? `${text.slice(begin, begin + charsMax)}…` : text.slice(begin, end));
}
