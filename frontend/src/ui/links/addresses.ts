/** Addresses of the console's pages, checked by the compiler. */

/** app/pages.ts adds `page`, the union of all pages. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- an interface can be added to
export interface Registered {}

type Known = Registered extends { page: infer Found extends { path: string } } ? Found : { path: string };

/** A page's path, with the names of its parameters: `/subjects/$subject`. */
export type Path = Known["path"];

type Names<P extends string> = P extends `${infer Head}/${infer Tail}`
  ? Names<Head> | Names<Tail>
  : P extends `$${infer Name}`
    ? Name
    : never;

type Free = Readonly<Record<string, string | undefined>>;
type SearchOf<P extends Path> =
  Extract<Known, { path: P }> extends { search: readonly (infer Name extends string)[] }
    ? Readonly<Partial<Record<Name, string>>>
    : Free;

/** A place in the console: a path with its parameters, and what stands behind the `?`. "." is the present page. */
export type Target =
  | {
      [P in Path]: [Names<P>] extends [never]
        ? { to: P; params?: undefined; search?: SearchOf<P> }
        : { to: P; params: Readonly<Record<Names<P>, string>>; search?: SearchOf<P> };
    }[Path]
  | { to: "."; params?: undefined; search?: Free };
