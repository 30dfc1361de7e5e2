import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet } from "@tanstack/react-router";
import { Failed, NotFound } from "@/app/errors";
import { Allowed } from "@/app/Allowed";
import { Layout } from "@/app/Layout";
import { pages } from "@/app/pages";
import { SignedIn } from "@/app/SignedIn";
import { withTexts } from "@/i18n";
import { parseSearch, stringifySearch } from "@/ui/links/urlState";

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound, errorComponent: Failed });

const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: () => (
    <SignedIn>
      <Layout>
        <Allowed>
          <Outlet />
        </Allowed>
      </Layout>
    </SignedIn>
  ),
});

const route = (page: (typeof pages)[number], parent: typeof root | typeof inside) =>
  createRoute({
    getParentRoute: () => parent as typeof root,
    path: page.path,
    component: lazyRouteComponent(withTexts(page.load, page.texts)),
    errorComponent: Failed,
    validateSearch: (search: Record<string, unknown>) => search as Record<string, string>,
  });

const tree = root.addChildren([
  inside.addChildren(pages.filter(({ isPublic }) => !isPublic).map((page) => route(page, inside))),
  ...pages.filter(({ isPublic }) => isPublic).map((page) => route(page, root)),
]);

export function makeRouter() {
  return createRouter({
    routeTree: tree,
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
  });
}
