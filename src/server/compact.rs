//! The methods of CompactService: whose pages, on which pool, and what a refusal says.
//!
//! Planning and applying are the core's; here a call gets its tenant's view of the page store, and summaries by the operator's
//! endpoint are asked for on threads of their own, so that a slow endpoint holds up no count. No call names an address.

use super::convert::compact as convert;
use super::convert::{body_in, json_in, named_format, options_in, payload_in};
use super::pool::Pool;
use super::rpc::Rpc;
use crate::check::{self, Severity};
use crate::compact::{self, Decision, Plan, Policy, Summarizer, SummarizerKind, SummaryTask};
use crate::count::{CountOptions, Counter, PrefixStore};
use crate::error::{Error, Kind, Result};
use crate::format::Request as Body;
use crate::pages::{PageStore, Pages, answer_page_call, page_tool_definitions};
use crate::proto::v1::compact_service_server::CompactService;
use crate::proto::{detail_of, status_with, v1};
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, async_trait};

/// Metadata by which a gateway names the tenant.
const TENANT_KEY: &str = "plimsoll-tenant";
/// Tenant of calls that name none.
const TENANT: &str = "default";
/// Hits given to a search that names no limit.
const HITS: u64 = 50;

/// What the service needs beside the counter. Cheap to clone.
#[derive(Clone)]
pub(super) struct Compaction {
    pub(super) store: Arc<dyn PageStore>,
    pub(super) summarizer: Option<Arc<dyn Summarizer + Send + Sync>>,
    /// Where summaries by the endpoint are waited for.
    pub(super) writing: Pool,
}

impl std::fmt::Debug for Compaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compaction").field("endpoint", &self.summarizer.is_some()).finish_non_exhaustive()
    }
}

/// What one call works with.
#[derive(Clone)]
struct Work {
    counter: Counter,
    prefixes: PrefixStore,
    pages: Pages,
    endpoint: bool,
}

/// An error, and what was wrong with the history if it was that.
struct Refusal {
    error: Error,
    findings: Vec<v1::Finding>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, findings: Vec::new() }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let detail = v1::ErrorDetail { findings: refusal.findings, ..detail_of(&refusal.error) };
        status_with(&refusal.error, &detail)
    }
}

/// Whose pages a call is about: its metadata or its field, which may not contradict each other.
fn tenant<'t>(metadata: &'t MetadataMap, field: &'t str) -> Result<&'t str> {
    let named = match metadata.get(TENANT_KEY) {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_| Error::invalid("", format!("the metadata `{TENANT_KEY}` is not plain text")))?),
    };
    match (named, field) {
        (Some(named), field) if !field.is_empty() && named != field => {
            Err(Error::invalid("", format!("the field `tenant` and the metadata `{TENANT_KEY}` name different tenants")))
        }
        (Some(named), _) => Ok(named),
        (None, "") => Ok(TENANT),
        (None, field) => Ok(field),
    }
}

impl Rpc {
    /// One call's counter and pages.
    fn work(&self, metadata: &MetadataMap, field: &str) -> Result<Work, Refusal> {
        let pages = self.pages(metadata, field)?;
        let (counter, prefixes) = (self.counter.clone(), self.prefixes.clone());
        Ok(Work { counter, prefixes, pages, endpoint: self.compaction.summarizer.is_some() })
    }

    /// The pages of a call's tenant.
    pub(super) fn pages(&self, metadata: &MetadataMap, field: &str) -> Result<Pages> {
        Pages::new(Arc::clone(&self.compaction.store), tenant(metadata, field)?)
    }

    /// Runs one call's work on the pool and notes how it ended.
    async fn kept<M, T>(
        &self,
        method: &'static str,
        request: Request<M>,
        field: fn(&M) -> &str,
        run: fn(&Work, &M) -> Result<T, Refusal>,
    ) -> Result<Response<T>, Status>
    where
        M: Send + 'static,
        T: Send + 'static,
    {
        let deadline = self.pool.deadline(request.metadata());
        let work = self.work(request.metadata(), field(request.get_ref()))?;
        let message = request.into_inner();
        let answer = self.timed(method, self.pool.run(deadline, move || Ok(run(&work, &message)))).await?;
        Ok(Response::new(answer?))
    }
}

/// The request of a call, mended if that was asked for.
struct Given {
    original: Body,
    request: Body,
    options: CountOptions,
    policy: Policy,
}

impl Given {
    fn read(work: &Work, message: &v1::PlanCompactionRequest) -> Result<Self, Refusal> {
        let counted = message.request.as_ref().ok_or_else(|| Error::invalid("", "the call carries no request"))?;
        let original = body_in(&work.prefixes, counted)?;
        let options = options_in(&work.counter, counted, &original)?;
        let given = convert::policy_in(message)?;
        let profile = || work.counter.profile_for(&original.conversation()?, &options);
        let policy = Policy::choose(given.as_ref(), message.target, profile)?;
        if policy.summarizer == SummarizerKind::Endpoint && !work.endpoint {
            return Err(Error::new(Kind::Unsupported, "this server has no endpoint for summaries; its operator configures one").into());
        }
        let request = if message.repair { check::repair(&original, options.model.as_deref())?.request } else { original.clone() };
        Ok(Self { original, request, options, policy })
    }

    fn decide(&self, work: &Work) -> Result<Decision, Refusal> {
        compact::plan(&self.request, &work.counter, &self.options, &self.policy, &work.pages).map_err(|error| self.refusal(error))
    }

    /// Adds the findings to the error of an invalid history.
    fn refusal(&self, error: Error) -> Refusal {
        let mut findings = Vec::new();
        if error.kind() == Kind::InvalidInput {
            findings = check::check(&self.request, self.options.model.as_deref());
            if findings.iter().all(|finding| finding.severity != Severity::Error) {
                findings.clear();
            }
        }
        Refusal { error, findings: convert::findings_out(&findings) }
    }

    fn unchanged(&self, before: u64) -> v1::Unchanged {
        let mended = self.request.text() != self.original.text();
        v1::Unchanged { before, body: mended.then(|| self.request.text().as_bytes().to_vec()) }
    }

    /// Keeps what is cut and packs the new request.
    fn apply(&self, work: &Work, plan: Plan) -> Result<v1::CompactResponse, Refusal> {
        let outcome = plan.apply(&self.original, &work.pages)?;
        Ok(v1::CompactResponse { outcome: Some(v1::compact_response::Outcome::Compacted(convert::compacted_out(outcome))) })
    }

    fn with_summaries(&self, work: &Work, plan: Plan, texts: &[Option<String>]) -> Result<Plan> {
        plan.with_summaries(texts, &work.counter, &self.options, &work.pages)
    }
}

/// What planning came to: an answer, or a plan that waits for summaries.
enum Planned {
    Answer(v1::CompactResponse),
    Open(Box<(Given, Plan)>),
}

fn check_history(_: &Counter, message: &v1::CheckRequest) -> Result<v1::CheckResponse> {
    let request = payload_in(message.payload.as_ref())?;
    let model = Some(message.model.as_str()).filter(|model| !model.is_empty());
    let (findings, mended, body) = if message.repair {
        let repaired = check::repair(&request, model)?;
        (repaired.left, repaired.mended, repaired.request.text().as_bytes().to_vec())
    } else {
        (check::check(&request, model), Vec::new(), Vec::new())
    };
    Ok(v1::CheckResponse {
        valid: findings.iter().all(|finding| finding.severity != Severity::Error),
        findings: convert::findings_out(&findings),
        mended: convert::findings_out(&mended),
        body,
    })
}

fn plan_compaction(work: &Work, message: &v1::PlanCompactionRequest) -> Result<v1::PlanCompactionResponse, Refusal> {
    use v1::plan_compaction_response::Decision as Wire;
    let given = Given::read(work, message)?;
    let decision = match given.decide(work)? {
        Decision::Nothing { before } => Wire::Unchanged(given.unchanged(before)),
        Decision::Plan(plan) => Wire::Plan(convert::plan_out(&plan)),
        Decision::Stuck(stuck) => Wire::CantShrink(convert::cant_shrink_out(&stuck)),
    };
    Ok(v1::PlanCompactionResponse { decision: Some(decision) })
}

/// Plans, and applies unless summaries are to be waited for.
fn compact_now(work: &Work, message: &v1::PlanCompactionRequest) -> Result<Planned, Refusal> {
    use v1::compact_response::Outcome;
    let given = Given::read(work, message)?;
    let outcome = match given.decide(work)? {
        Decision::Nothing { before } => Outcome::Unchanged(given.unchanged(before)),
        Decision::Stuck(stuck) => Outcome::CantShrink(convert::cant_shrink_out(&stuck)),
        Decision::Plan(plan) if given.policy.summarizer == SummarizerKind::Endpoint && !plan.tasks.is_empty() => {
            return Ok(Planned::Open(Box::new((given, plan))));
        }
        Decision::Plan(plan) => return Ok(Planned::Answer(given.apply(work, plan)?)),
    };
    Ok(Planned::Answer(v1::CompactResponse { outcome: Some(outcome) }))
}

fn apply_summaries(work: &Work, message: &v1::ApplySummariesRequest) -> Result<v1::CompactResponse, Refusal> {
    use v1::compact_response::Outcome;
    let wanted = message.plan.as_ref().ok_or_else(|| Error::invalid("", "the call carries no plan request"))?;
    let given = Given::read(work, wanted)?;
    let moved = || Error::new(Kind::Conflict, "the plan is no longer the one that the summaries are for; plan again");
    let plan = match given.decide(work)? {
        Decision::Plan(plan) => plan,
        _ if !message.plan_id.is_empty() => return Err(moved().into()),
        Decision::Nothing { before } => {
            return Ok(v1::CompactResponse { outcome: Some(Outcome::Unchanged(given.unchanged(before))) });
        }
        Decision::Stuck(stuck) => {
            return Ok(v1::CompactResponse { outcome: Some(Outcome::CantShrink(convert::cant_shrink_out(&stuck))) });
        }
    };
    if !message.plan_id.is_empty() && message.plan_id != plan.id {
        return Err(moved().into());
    }
    let mut texts = vec![None; plan.tasks.len()];
    for summary in &message.summaries {
        let at = usize::try_from(summary.task).unwrap_or(usize::MAX);
        let slot = texts
            .get_mut(at)
            .ok_or_else(|| Error::invalid("", format!("there is no task {at}; the plan has {} tasks", plan.tasks.len())))?;
        *slot = Some(summary.text.clone());
    }
    let plan = given.with_summaries(work, plan, &texts)?;
    given.apply(work, plan)
}

fn undo(work: &Work, message: &v1::UndoRequest) -> Result<v1::UndoResponse, Refusal> {
    let request = compact::undo(&work.pages, &message.id)?;
    Ok(v1::UndoResponse { payload: Some(convert::payload_out(&request)) })
}

fn size(number: u64, usual: u64) -> usize {
    usize::try_from(if number == 0 { usual } else { number }).unwrap_or(usize::MAX)
}

fn read_page(work: &Work, message: &v1::ReadPageRequest) -> Result<v1::ReadPageResponse, Refusal> {
    let page = work.pages.read(&message.r#ref, size(message.page, 1))?;
    Ok(v1::ReadPageResponse {
        page: page.number as u64,
        pages: page.of as u64,
        first_line: page.first_line as u64,
        tokens: page.tokens as u64,
        text: page.text,
    })
}

fn search_page(work: &Work, message: &v1::SearchPageRequest) -> Result<v1::SearchPageResponse, Refusal> {
    let (found, more) = compact::search_kept(&work.pages, &message.r#ref, &message.pattern, size(message.limit, HITS))?;
    let hits = found.into_iter().map(|(reference, hit)| v1::PageHit {
        r#ref: reference,
        line: hit.line as u64,
        page: hit.page as u64,
        text: hit.text,
    });
    Ok(v1::SearchPageResponse { hits: hits.collect(), more })
}

fn stat_page(work: &Work, message: &v1::StatPageRequest) -> Result<v1::StatPageResponse, Refusal> {
    let stat = work.pages.stat(&message.r#ref)?;
    Ok(v1::StatPageResponse { bytes: stat.bytes as u64, lines: stat.lines as u64, tokens: stat.tokens as u64, pages: stat.pages as u64 })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as every method's work")]
fn list_page_tools(_: &Counter, message: &v1::ListPageToolsRequest) -> Result<v1::ListPageToolsResponse> {
    let tools = page_tool_definitions(named_format(message.format)?);
    Ok(v1::ListPageToolsResponse { tools: tools.iter().map(|tool| tool.to_string().into_bytes()).collect() })
}

fn answer_call(work: &Work, message: &v1::AnswerPageCallRequest) -> Result<v1::AnswerPageCallResponse, Refusal> {
    let format = named_format(message.format)?;
    let call = json_in(&message.call).map_err(|e| e.context("reading the call"))?;
    let answer = answer_page_call(&work.pages, format, &call)?;
    Ok(v1::AnswerPageCallResponse { result: answer.map(|answer| answer.to_string().into_bytes()) })
}

fn plan_tenant(message: &v1::PlanCompactionRequest) -> &str {
    &message.tenant
}

fn summaries_tenant(message: &v1::ApplySummariesRequest) -> &str {
    message.plan.as_ref().map_or("", plan_tenant)
}

#[async_trait]
impl CompactService for Rpc {
    async fn check(&self, request: Request<v1::CheckRequest>) -> Result<Response<v1::CheckResponse>, Status> {
        self.call("Check", request, check_history).await
    }

    async fn plan_compaction(&self, request: Request<v1::PlanCompactionRequest>) -> Result<Response<v1::PlanCompactionResponse>, Status> {
        self.kept("PlanCompaction", request, plan_tenant, plan_compaction).await
    }

    async fn compact(&self, request: Request<v1::CompactRequest>) -> Result<Response<v1::CompactResponse>, Status> {
        let deadline = self.pool.deadline(request.metadata());
        let (metadata, _, message) = request.into_parts();
        let message = message.plan.unwrap_or_default();
        let work = self.work(&metadata, &message.tenant)?;
        let whole = async {
            let planning = work.clone();
            let planned = self.pool.run(deadline, move || Ok(compact_now(&planning, &message))).await??;
            let (given, plan) = match planned {
                Planned::Answer(answer) => return Ok(answer),
                Planned::Open(open) => *open,
            };
            let Some(writer) = self.compaction.summarizer.clone() else {
                return Err(Status::internal("a plan waits for an endpoint that is not there"));
            };
            let tasks = plan.tasks.clone();
            // A summary that fails is none: the built-in one stands.
            let ask = move |task: &SummaryTask| match writer.summarize(task) {
                Ok(text) => Some(text),
                Err(error) => {
                    tracing::warn!(%error, "the endpoint wrote no summary");
                    None
                }
            };
            let writing = move || Ok(tasks.iter().map(ask).collect::<Vec<_>>());
            let texts = self.compaction.writing.run(deadline, writing).await?;
            let finish = move || {
                let plan = given.with_summaries(&work, plan, &texts)?;
                Ok(given.apply(&work, plan))
            };
            let answer = self.pool.wait(deadline, finish).await?.map_err(Refusal::from)?;
            Ok(answer?)
        };
        self.timed("Compact", whole).await.map(Response::new)
    }

    async fn apply_summaries(&self, request: Request<v1::ApplySummariesRequest>) -> Result<Response<v1::CompactResponse>, Status> {
        self.kept("ApplySummaries", request, summaries_tenant, apply_summaries).await
    }

    async fn undo(&self, request: Request<v1::UndoRequest>) -> Result<Response<v1::UndoResponse>, Status> {
        self.kept("Undo", request, |m| &m.tenant, undo).await
    }

    async fn read_page(&self, request: Request<v1::ReadPageRequest>) -> Result<Response<v1::ReadPageResponse>, Status> {
        self.kept("ReadPage", request, |m| &m.tenant, read_page).await
    }

    async fn search_page(&self, request: Request<v1::SearchPageRequest>) -> Result<Response<v1::SearchPageResponse>, Status> {
        self.kept("SearchPage", request, |m| &m.tenant, search_page).await
    }

    async fn stat_page(&self, request: Request<v1::StatPageRequest>) -> Result<Response<v1::StatPageResponse>, Status> {
        self.kept("StatPage", request, |m| &m.tenant, stat_page).await
    }

    async fn list_page_tools(&self, request: Request<v1::ListPageToolsRequest>) -> Result<Response<v1::ListPageToolsResponse>, Status> {
        self.call("ListPageTools", request, list_page_tools).await
    }

    async fn answer_page_call(&self, request: Request<v1::AnswerPageCallRequest>) -> Result<Response<v1::AnswerPageCallResponse>, Status> {
        self.kept("AnswerPageCall", request, |m| &m.tenant, answer_call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_named_once_or_twice_the_same() {
        let (none, mut named) = (MetadataMap::new(), MetadataMap::new());
        named.insert(TENANT_KEY, "a".parse().unwrap());
        assert_eq!(tenant(&none, "").unwrap(), TENANT);
        assert_eq!(tenant(&none, "b").unwrap(), "b");
        assert_eq!(tenant(&named, "").unwrap(), "a");
        assert_eq!(tenant(&named, "a").unwrap(), "a");
        assert_eq!(tenant(&named, "b").unwrap_err().kind(), Kind::InvalidInput);
    }
}
