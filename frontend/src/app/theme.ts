import { createTheme } from "@mantine/core";

/** Shades that keep WCAG AA contrast for text on them and for text of them. */
export const theme = createTheme({
  primaryColor: "blue",
  primaryShade: 8,
  autoContrast: true,
  defaultRadius: "md",
  respectReducedMotion: true,
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif',
  components: {
    // Their <header> is the dialog's, not the page's: one banner is enough.
    Drawer: { defaultProps: { attributes: { header: { role: "presentation" } } } },
    Modal: { defaultProps: { attributes: { header: { role: "presentation" } } } },
    Tooltip: { defaultProps: { withArrow: true, events: { hover: true, focus: true, touch: true } } },
  },
});
