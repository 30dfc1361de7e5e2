import { useTranslation } from "@/i18n/useTranslation";
import { change, etagOf } from "@/api/requests";
import { alertsKey, type Alert } from "@/api/alerts";
import { changeChannel, changeRule, type Channel, type Rule, type Silence } from "@/features/alerts/queries";
import { ChangeDialog, PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { useRuleName } from "@/shared/ruleNames";

/** Acknowledges an alert, with a note on what is being done. */
export function AcknowledgeDialog({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  return (
    <PreviewDialog
      onClose={onClose}
      title={t("acknowledge.title", { rule: ruleName(alert.rule), target: alert.target })}
      actionLabel={t("acknowledge.action")}
      doneMessage={t("acknowledge.done")}
      reasonField={{ label: t("acknowledge.note"), description: t("acknowledge.note_hint") }}
      run={(attempt) => change("post", "/api/v1/alerts/{alert}/acknowledge/", attempt, { path: { alert: alert.id } })}
      refreshes={[alertsKey]}
    />
  );
}

type Kept = { kind: "rule"; row: Rule } | { kind: "channel"; row: Channel };

/** As lists show it: built-in rules have names in each language. */
function useShownName({ kind, row }: Kept): string {
  const ruleName = useRuleName();
  return kind === "rule" ? ruleName(row.name) : row.name;
}

/** Enables or disables a rule or a channel; disabling requires typing the name. */
export function SwitchDialog({ onClose, ...of }: Kept & { onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const name = useShownName(of);
  const wasOn = of.row.is_enabled;
  const body = { is_enabled: !wasOn };
  return (
    <ChangeDialog
      onClose={onClose}
      affects={name}
      title={t(`alert_pages:${of.kind}.${wasOn ? "disable" : "enable"}`, { name })}
      confirmName={wasOn ? name : undefined}
      actionLabel={t(wasOn ? "disable" : "enable")}
      doneMessage={t(`alert_pages:${of.kind}.${wasOn ? "disabled" : "enabled"}`, { name })}
      run={(attempt) => (of.kind === "rule" ? changeRule(of.row, body, attempt) : changeChannel(of.row, body, attempt))}
      refreshes={[alertsKey]}
    />
  );
}

/** Deletes a rule or a channel. */
export function DeleteDialog({ onClose, ...of }: Kept & { onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const name = useShownName(of);
  const {
    kind,
    row: { id, version },
  } = of;
  const etag = etagOf({ version });
  return (
    <ChangeDialog
      onClose={onClose}
      affects={name}
      title={t(`alert_pages:${kind}.delete`, { name })}
      confirmName={name}
      actionLabel={t("common:action.delete")}
      doneMessage={t(`alert_pages:${kind}.deleted`, { name })}
      reasonField={false}
      run={(attempt) =>
        kind === "rule"
          ? change("delete", "/api/v1/alert-rules/{rule}/", attempt, { path: { rule: id }, etag })
          : change("delete", "/api/v1/alert-channels/{channel}/", attempt, { path: { channel: id }, etag })
      }
      refreshes={[alertsKey]}
    />
  );
}

export function EndSilenceDialog({ silence, onClose }: { silence: Silence; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const path = { silence: silence.id };
  return (
    <ChangeDialog
      onClose={onClose}
      affects={`${silence.rule} · ${silence.target}`}
      title={t("silence.end_of", { rule: silence.rule, target: silence.target })}
      actionLabel={t("silence.end")}
      doneMessage={t("silence.ended")}
      reasonField={false}
      run={(attempt) => change("delete", "/api/v1/silences/{silence}/", attempt, { path, etag: etagOf(silence) })}
      refreshes={[alertsKey]}
    />
  );
}
