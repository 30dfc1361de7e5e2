"""Pages for the deletion of an empty subject: preview and deletion."""

from typing import Any

from aiohttp import web

from broker_node.admin.group_pages import wait_until_durable
from broker_node.admin.view import NodeView
from broker_node.storage.disk_work import completed
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.subject import Subject
from qmq.protocol.names import dead_letter_subject, retry_subject, split_subject
from qmq_node.admin.server import BadRequest, Params
from qmq_node.policy import NO_RULES


class SubjectPages:
    """Pages of the subjects of one broker."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self.routes = {"/subjects/{subject:[^/]+}/drop-preview": self._preview}
        self.posts = {"/subjects/{subject:[^/]+}/drop": self._drop}

    async def _preview(self, request: web.Request) -> dict[str, Any]:
        subject, others = await completed(lambda: self._subjects(request))
        return {"subject": subject.name, "reason": self._why_kept(subject, others) or None}

    async def _drop(self, request: web.Request, params: Params) -> dict[str, Any]:
        view, store = self._view, self._view.store
        subject, others = await completed(lambda: self._subjects(request))
        reason = self._why_kept(subject, others)
        if reason:
            raise BadRequest(409, "subject.not_empty", f"{subject.name} {reason}")
        if any(one.name in store.removed for one in (subject, *others)):
            text = f"files of an earlier subject {subject.name} are not deleted yet; try again in two minutes"
            raise BadRequest(503, "subject.busy", text)
        offset = -1
        groups = len(subject.groups)
        # No turn of the event loop in between: nothing can be stored after the check.
        for one in (*others, subject):
            for group in list(one.groups.values()):
                store.forget_group(one, group)
            offset = store.drop_subject(one)
        await wait_until_durable(view.node.committer.synced, offset)
        return {"subject": subject.name, "dropped": True, "groups": groups}

    def _subjects(self, request: web.Request) -> tuple[Subject, list[Subject]]:
        """The subject, and the retry and dead-letter subjects of its groups. Raises DiskWork."""
        store, name = self._view.store, request.match_info["subject"]
        if split_subject(name).kind != "real":
            text = f"{name} is a retry or dead-letter subject: it is deleted with its real subject"
            raise BadRequest(400, "subject.not_real", text)
        subject = self._view.subject_now(name)
        names = [make(name, group) for group in subject.groups for make in (retry_subject, dead_letter_subject)]
        others = [store.subjects[other] for other in names if other in store.subjects]
        for one in others:
            adjust_begin(store, one)
        return subject, others

    def _why_kept(self, subject: Subject, others: list[Subject]) -> str:
        """Returns why the subject must not be deleted; "" if it is unused."""
        view = self._view
        if view.store.log.stored.damaged:
            return "can't be deleted while the log is corrupted: messages that seem to be missing may be withheld"
        if not view.node.policy.subjects.get(subject.name, NO_RULES).closed:
            return "still accepts messages on this node; archive it and wait until the node has received the change"
        for one in (subject, *others):
            stored = one.next_sequence - one.begin
            if stored:
                return f"holds {stored} messages" + ("" if one is subject else f" in {one.name}")
        for one in (subject, *others):
            for group in one.groups.values():
                if members := view.members_online(group):
                    return f"is read by {members} consumers of group {group.progress.group}"
        return ""
