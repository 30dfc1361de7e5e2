import { Anchor, type AnchorProps } from "@mantine/core";
import { createLink, useNavigate, type LinkProps, type NavigateOptions } from "@tanstack/react-router";
import { forwardRef, type AnchorHTMLAttributes, type ReactNode } from "react";
import type { Target } from "@/ui/links/addresses";

const Plain = forwardRef<HTMLAnchorElement, AnchorHTMLAttributes<HTMLAnchorElement>>(function Plain(props, ref) {
  // eslint-disable-next-line jsx-a11y/anchor-has-content -- its children are in props
  return <a ref={ref} {...props} />;
});

/**
 * A link inside the console for `component={RouterLink}` of the component library. Its address is not checked: prefer
 * LinkTo.
 */
export const RouterLink = createLink(Plain);

type Props = Target &
  Omit<AnchorProps, "component"> &
  Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof AnchorProps | "href"> & { children?: ReactNode };

/** A link inside the console: `<LinkTo to="/subjects/$subject" params={{ subject }}>`. Parameters are encoded. */
export function LinkTo({ to, params, search, ...rest }: Props) {
  // The router knows its routes at run time only.
  const address = { to, params, search } as unknown as LinkProps;
  return <Anchor component={RouterLink} {...address} {...rest} />;
}

/** A function that goes to a place in the console. */
export function useGoTo(): (target: Target) => Promise<void> {
  const navigate = useNavigate();
  return (target) => navigate(target as unknown as NavigateOptions);
}
