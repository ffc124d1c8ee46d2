//! `nccl-otf2 report`: an archive as one page for a browser.

mod encoding;
mod page;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use analysis::report::Outcome;
use analysis::{Filter, analyse};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use nccl_events::Progress as _;
use rayon::prelude::*;
use serde::Serialize;

use crate::archive;
use crate::diff;
use crate::exit::Exit;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::select::Select;
use crate::verdict;
use crate::version;

use page::{DiffModel, Model};
use timeline::{At, Chunks, Made};

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 report trace
  nccl-otf2 report trace -o tuesday.html --title 'before the upgrade'
  nccl-otf2 report trace --full
  nccl-otf2 report monday --diff tuesday -o tuesday.html
  nccl-otf2 report monday --diff tuesday --from 10s --function AllReduce

The page says what is slow, who is late, and whether ranks waited or moved bytes, then shows the tables, plots and a \
timeline. It is one file that loads nothing from a network: send it, or open it from a disk, in any browser of 2023 \
or later.

A page has at most 15 MB, or --size. Where an archive has more events than fit, the page has those of the beginning, the end, \
the anomalies, and the times in which ranks waited longest; of other times the timeline shows each rank's shares of \
transfer and waiting. --full puts the other events into a folder beside the page, from which it loads what is looked \
at; keep the two together.

With --diff the page is that of `nccl-otf2 diff DIR OTHER`: what is slower or faster in OTHER, whether that is more \
than chance, how much of it is waiting and how much transfer, what could not be compared, and both runs side by side.

--json prints an object: page (its path), bytes, events, events_in_page, folder (of --full; else null), files (in \
it), verdict (the first sentence of the page). With --diff: page, bytes, verdict, outcome (slower, faster, \
no-difference, unclear).";

/// What to make a page of.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Compare with this run: a page of what differs in it
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["full", "size"])]
    diff: Option<PathBuf>,

    /// The page; one that is there is replaced [default: report.html, with --diff diff.html, beside the archive]
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,

    /// Keep all events, in files beside the page where they do not fit into it
    #[arg(long)]
    full: bool,

    /// Size of the page at most, in MB; small archives make small pages
    #[arg(long, value_name = "MB", default_value_t = 15)]
    size: usize,

    /// What the page is called [default: the name of the archive's directory]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Print what was made as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = "With --diff")]
    select: Select,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Summary {
    page: String,
    bytes: usize,
    events: usize,
    events_in_page: usize,
    folder: Option<String>,
    files: usize,
    verdict: String,
}

/// Makes the page.
pub(crate) fn report(request: &Request) -> Result<Exit> {
    if let Some(other) = &request.diff {
        return compared(request, other);
    }
    let is_whole = request.select == Select::default();
    ensure!(is_whole, "a page of one run has all of it; --comm, --rank, --function, --from and --to need --diff");
    let trace = archive::open_with_kinds(&request.path)?;
    let output = request.output.clone().unwrap_or_else(|| trace.anchor.with_file_name("report.html"));
    let bar = Bar::new();
    let damaged = "the archive is damaged, `nccl-otf2 check` says more";
    let mut analysis = analyse(&trace, &Filter::default(), &bar).context(damaged)?;
    if analysis.tables.members.has_process_of_several_ranks() {
        // Their calls say which rank a thread belongs to.
        analysis.tables.add_calls(&trace, &bar).context(damaged)?;
    }
    let mut made = Made::of(&trace, &analysis, &bar)?;
    let mut report = analysis.report;
    verdict::put_first(&trace, &mut report.verdict);
    drop((analysis.tables, analysis.instances));

    bar.begin("page", 1);
    let mut data = vec![("overview".to_owned(), encoding::pack(&made.cells)?)];
    let moments: Vec<u64> = report.anomalies.iter().map(|anomaly| anomaly.start_ns).collect();
    // What the page has beside the chunks: its sources, the report, names and attributes.
    let fixed = serde_json::to_vec(&report)?.len() / 3 + data[0].1.len() + 600_000;
    put_into_page(&mut made.chunks, &moments, (request.size * 1_000_000).saturating_sub(fixed), &mut data)?;
    let folder = if request.full { write_files(&output, &mut made.chunks)? } else { None };
    let title = request.title.clone().unwrap_or_else(|| title_of(&trace.anchor));
    let count = |at: At| made.chunks.all.iter().filter(|chunk| chunk.at == at).map(|chunk| chunk.events).sum::<usize>();
    let (in_page, in_files) = (count(At::Page), made.chunks.all.iter().filter(|chunk| chunk.at == At::File).count());
    let events = in_page + count(At::File) + count(At::None);
    let timeline = made.finish(folder.as_deref().map(name_of))?;
    let text = page::page(&Model { title: &title, tool: &tool(), report: &report, timeline: &timeline }, &data)?;
    write(&output, text.as_bytes())?;
    bar.end();
    drop(bar);

    let summary = Summary {
        page: output.display().to_string(),
        bytes: text.len(),
        events,
        events_in_page: in_page,
        folder: folder.map(|folder| folder.display().to_string()),
        files: in_files,
        verdict: report.verdict.sentence,
    };
    if request.json {
        print::json(&summary)?;
    } else {
        print::text(&summary.text())?;
    }
    Ok(Exit::Well)
}

/// What was made of two runs.
#[derive(Debug, Serialize)]
struct Comparison {
    page: String,
    bytes: usize,
    outcome: Outcome,
    verdict: String,
}

/// Makes the page of the run that is asked for and of another one.
fn compared(request: &Request, other: &Path) -> Result<Exit> {
    let comparison = diff::comparison(&request.path, other, &request.select)?;
    let beside = Path::new(&comparison.runs[0].run.anchor).with_file_name("diff.html");
    let output = request.output.clone().unwrap_or(beside);
    let title = request.title.clone().unwrap_or_else(|| format!("{} and {}", request.path.display(), other.display()));
    let text = page::page(&DiffModel { title: &title, tool: &tool(), comparison: &comparison }, &[])?;
    write(&output, text.as_bytes())?;
    let summary = Comparison {
        page: output.display().to_string(),
        bytes: text.len(),
        outcome: comparison.outcome,
        verdict: comparison.sentence,
    };
    if request.json {
        print::json(&summary)?;
    } else {
        let Comparison { page, bytes, verdict, .. } = &summary;
        let mut text = Text::default();
        text.line(verdict);
        text.paragraph(format_args!("{page}: {} kB", bytes.div_ceil(1000)));
        print::text(&text)?;
    }
    Ok(Exit::Well)
}

impl Summary {
    fn text(&self) -> Text {
        let mut page = format!("{}: {} kB", self.page, self.bytes.div_ceil(1000));
        if let Some(folder) = &self.folder {
            let files = if self.files == 1 { "file" } else { "files" };
            page += &format!(", and {} {files} in {folder}", self.files);
        } else if self.events_in_page < self.events {
            page += &format!("; it has {} of {} events, `--full` keeps all", self.events_in_page, self.events);
        }
        let mut text = Text::default();
        text.line(&self.verdict);
        text.paragraph(page);
        text
    }
}

/// Puts the weightiest chunks into the page, as many as fit.
fn put_into_page(
    chunks: &mut Chunks,
    moments: &[u64],
    mut room: usize,
    data: &mut Vec<(String, String)>,
) -> Result<()> {
    for some in chunks.by_weight(moments).chunks(rayon::current_num_threads().max(1) * 4) {
        let texts: Vec<String> = some.par_iter().map(|at| chunks.text(*at)).collect::<Result<_>>()?;
        for (at, text) in some.iter().zip(texts) {
            if text.len() <= room {
                room -= text.len();
                chunks.all[*at].at = At::Page;
                data.push((format!("chunk-{at}"), text));
            }
        }
        // A chunk is some hundred kilobytes: nothing of use fits any more.
        if room < 20_000 {
            break;
        }
    }
    Ok(())
}

/// Writes what the page does not have into a folder beside it. Scripts, because a page from a file may fetch nothing.
fn write_files(output: &Path, chunks: &mut Chunks) -> Result<Option<PathBuf>> {
    let rest: Vec<usize> = (0..chunks.all.len()).filter(|at| chunks.all[*at].at == At::None).collect();
    if rest.is_empty() {
        return Ok(None);
    }
    let mut folder = output.with_extension("").into_os_string();
    folder.push("-files");
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    rest.par_iter().try_for_each(|at| {
        let script = format!("nccl_otf2_chunk({at},\"{}\")", chunks.text(*at)?);
        write(&folder.join(format!("chunk-{at}.js")), script.as_bytes())
    })?;
    for at in rest {
        chunks.all[at].at = At::File;
    }
    Ok(Some(folder))
}

/// Nobody reads half a file: it is made under another name.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write {}; -o names another file", path.display()))
}

/// What made the page.
fn tool() -> String {
    format!("nccl-otf2 {}", version::short())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The directory of an archive says more than its anchor file, which is always called `traces.otf2`.
fn title_of(anchor: &Path) -> String {
    let absolute = fs::canonicalize(anchor).unwrap_or_else(|_| anchor.to_owned());
    absolute.parent().map_or_else(|| name_of(anchor), name_of)
}
