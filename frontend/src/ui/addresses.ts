/** Addresses of the console's pages, checked by the compiler. */

/** app/pages.ts adds `path`, the union of all pages' paths. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- an interface can be added to
export interface Registered {}

/** A page's path, with the names of its parameters: `/subjects/$subject`. */
export type Path = Registered extends { path: infer Known extends string } ? Known : string;

type Names<P extends string> = P extends `${infer Head}/${infer Tail}`
  ? Names<Head> | Names<Tail>
  : P extends `$${infer Name}`
    ? Name
    : never;

type SearchOf = Readonly<Record<string, string | undefined>>;

/** A place in the console: a path with its parameters, and what stands behind the `?`. "." is the present page. */
export type Target =
  | {
      [P in Path]: [Names<P>] extends [never]
        ? { to: P; params?: undefined; search?: SearchOf }
        : { to: P; params: Readonly<Record<Names<P>, string>>; search?: SearchOf };
    }[Path]
  | { to: "."; params?: undefined; search?: SearchOf };
