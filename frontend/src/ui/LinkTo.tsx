import { createLink } from "@tanstack/react-router";
import { forwardRef, type AnchorHTMLAttributes } from "react";

const Plain = forwardRef<HTMLAnchorElement, AnchorHTMLAttributes<HTMLAnchorElement>>(function Plain(props, ref) {
  // eslint-disable-next-line jsx-a11y/anchor-has-content -- its children are in props
  return <a ref={ref} {...props} />;
});

/**
 * A link inside the console, for `component={LinkTo}` of the component library:
 * `<Anchor component={LinkTo} to="/subjects/$subject" params={{ subject }}>`. Names in the address are encoded by `params`.
 */
export const LinkTo = createLink(Plain);
