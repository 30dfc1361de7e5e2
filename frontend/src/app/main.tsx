import "@/app/componentStyles";
import "@/app/styles.css";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { createRoot } from "react-dom/client";
import { nonce } from "@/app/nonce";
import { Providers } from "@/app/providers";
import { reloadOnNewBuild } from "@/app/newBuild";
import { makeRouter } from "@/app/router";
import { startTexts } from "@/i18n";

const root = document.getElementById("root");
if (!root) throw new Error("the page has no place to draw in");
reloadOnNewBuild(window, Date.now);
setNonce(nonce()); // Dialogs stop the page behind them from scrolling by a style element.
await startTexts();
createRoot(root).render(
  <Providers>
    <RouterProvider router={makeRouter()} />
  </Providers>,
);
