import { createTheme, rem } from "@mantine/core";

/**
 * docs/frontend.md says why it looks as it does. Shades keep WCAG AA contrast for text on them and for text of them: 8
 * on white, 4 on the dark.
 */
export const theme = createTheme({
  primaryColor: "brand",
  primaryShade: 8,
  autoContrast: true,
  colors: {
    brand: [
      "#eef2ff",
      "#dfe6ff",
      "#bccbff",
      "#95adff",
      "#7d99fb",
      "#5f80f5",
      "#4c6fec",
      "#3d5fdc",
      "#2f4fc4",
      "#233b93",
    ],
    dark: [
      "#d8dce5",
      "#b4bac8",
      "#8b93a5",
      "#697184",
      "#3c4353",
      "#2d3340",
      "#222733",
      "#171b24",
      "#11141b",
      "#0c0e14",
    ],
  },
  defaultRadius: "md",
  radius: { sm: rem(4), md: rem(6), lg: rem(10) },
  // One size for what is read, whether in a table, a form or a sentence.
  fontSizes: { xs: rem(12), sm: rem(14), md: rem(14), lg: rem(16), xl: rem(20) },
  headings: {
    // Below 700 fonts without a bold of their own, as many Chinese ones, stay thin.
    fontWeight: "700",
    sizes: {
      h1: { fontSize: rem(26) },
      h2: { fontSize: rem(22) },
      h3: { fontSize: rem(18) },
      h4: { fontSize: rem(15) },
    },
  },
  respectReducedMotion: true,
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif',
  components: {
    // Their <header> is the dialog's, not the page's: one banner is enough.
    Drawer: { defaultProps: { attributes: { header: { role: "presentation" } } } },
    Modal: { defaultProps: { attributes: { header: { role: "presentation" } } } },
    // Its root is a span, whose name screen readers read with a role only.
    Loader: { defaultProps: { role: "progressbar" } },
    // What is wider than its place shows a scrollbar, not only while it is pointed at.
    ScrollArea: { defaultProps: { type: "auto" } },
    Tooltip: { defaultProps: { withArrow: true, events: { hover: true, focus: true, touch: true } } },
  },
});
