//! `cargo xtask house`: checks import cycles, sizes and widths of the code base against the table in `limits.rs`.

mod circles;
mod limits;
mod modules;
mod paths;
mod report;
mod rooms;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cargo;
use anyhow::{Result, ensure};

use circles::Circle;
use limits::{EXCEPTIONS, Exception, GENERATED, LIMITS, Limit, Rule};
use modules::{Crate, Sources};
use report::{Found, Report};
use rooms::{Room, Table};
use tree::{Kind, Tree};

/// The page with the table of permitted imports.
const DESIGN: &str = "docs/DESIGN.md";

/// Hold circles of imports, sizes and widths of the code base against the limits
///
/// Circles: no module imports another one that, perhaps through further modules, imports it; that holds for the
/// modules of a crate, for the files of a folder, and for a module and its children. A path counts as an import of the
/// file that defines what it names, through re-exports. Code for tests is not looked at.
///
/// Imports: rooms import what the table in docs/DESIGN.md (between `<!-- imports -->` and `<!-- end imports -->`)
/// allows. Rows name a module of the plugin (`record`), of a crate (`trace/links`) or a crate (`journal`).
///
/// Sizes: lines of files and functions (tests too), files in a folder (`mod.rs`, `lib.rs` and `main.rs` not counted),
/// production lines of a room, all lines of a category (the product, tests, doubles, xtask), items that other crates
/// can name (no methods, no modules). Generated files are left out.
///
/// Widths: lines of Markdown, and lines that are only comment. Rows of tables, fenced blocks, definitions of links,
/// images and single words may be wider.
///
/// All limits are in xtask/src/verbs/house/limits.rs, with how many things may exceed each for now, and the named
/// exceptions. Exit status: 0 all is well, 1 a limit is exceeded or an exception is no longer needed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// List everything that exceeds a limit, also what may for now
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = look(cargo::root(), LIMITS, EXCEPTIONS)?;
    print!("{}", report.text(args.all));
    ensure!(!report.failed(), "limits are exceeded: see above");
    Ok(())
}

fn look(root: &Path, limits: &[Limit], exceptions: &[Exception]) -> Result<Report> {
    let tree = Tree::read(root)?;
    let mut found = Vec::new();
    let mut sources = Sources::new();
    for file in tree.files.iter().filter(|file| !GENERATED.contains(&file.as_str())) {
        let text = match file.rsplit_once('.') {
            Some((_, "md" | "rs" | "c" | "h" | "py" | "sh" | "toml" | "cmake" | "txt")) => tree.text(file)?,
            _ if file == ".ci/run" => tree.text(file)?,
            _ => continue,
        };
        widths(file, &text, &mut found);
        if file.ends_with(".rs") {
            sources.insert(file.clone(), source::read(file, &text)?);
        }
    }
    sizes(&sources, &mut found);
    let mut circles = Vec::new();
    let production = crates(&tree, &sources, &mut found, &mut circles);
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    for (file, source) in &sources {
        let room = rooms.entry(rooms::of(&tree, file)).or_default();
        let test = if production.contains(file) { source.test_lines } else { source.lines };
        room.files += 1;
        room.test += test;
        room.production += source.lines - test;
    }
    for (name, room) in &rooms {
        found.push(Found::new(Rule::RoomLines, name, room.production));
    }
    for (name, (_, is)) in rooms::categories(&rooms) {
        found.push(Found::new(Rule::CategoryLines, name, is));
    }
    Ok(Report::new(found, circles, rooms, limits, exceptions))
}

/// Checks what each crate imports and exports; returns the files that are compiled into the product.
fn crates(tree: &Tree, sources: &Sources, found: &mut Vec<Found>, circles: &mut Vec<Circle>) -> BTreeSet<String> {
    let table = tree.text(DESIGN).ok().and_then(|page| Table::read(&page));
    let others: BTreeSet<&str> = tree.packages.iter().filter_map(|package| package.library()).collect();
    let mut production = BTreeSet::new();
    let mut wrong = table.as_ref().map_or_else(Vec::new, |table| table.packages(tree));
    for package in &tree.packages {
        for target in package.targets.iter().filter(|target| target.kind != Kind::Test) {
            let mut others = others.clone();
            if target.kind == Kind::Library {
                others.remove(target.name.as_str());
            }
            let code = Crate::read(sources, &target.file, others);
            let imports = code.imports();
            production.extend(code.modules.iter().map(|module| module.file.clone()));
            circles.extend(circles::find(&target.name, &code, &imports));
            if let Some(table) = &table {
                wrong.extend(table.modules(tree, package, &code, &imports));
            }
            if target.kind == Kind::Library {
                found.push(Found::new(Rule::PublicItems, rooms::short(package), code.public().len()));
            }
        }
    }
    found.extend(wrong.iter().map(|what| Found::new(Rule::Imports, what, 1)));
    found.extend(
        circles
            .iter()
            .map(|circle| Found::new(Rule::Circles, &format!("modules of {}", circle.inside), circle.modules.len())),
    );
    production
}

fn sizes(sources: &Sources, found: &mut Vec<Found>) {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, source) in sources {
        found.push(Found::new(Rule::FileLines, file, source.lines));
        found.extend(source.functions.iter().map(|function| {
            let what = format!("{file}::{}", function.name);
            Found { line: Some(function.line), ..Found::new(Rule::FunctionLines, &what, function.lines) }
        }));
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        if !matches!(name, "mod.rs" | "lib.rs" | "main.rs") {
            *folders.entry(folder).or_default() += 1;
        }
    }
    for (folder, is) in folders {
        found.push(Found::new(Rule::FolderFiles, folder, is));
    }
}

fn widths(file: &str, text: &str, found: &mut Vec<Found>) {
    let most = |rule| LIMITS.iter().find(|limit| limit.rule == rule).map_or(usize::MAX, |limit| limit.most);
    let (rule, wide) = if file.ends_with(".md") {
        (Rule::MarkdownColumns, text::page(text, most(Rule::MarkdownColumns)))
    } else {
        (Rule::CommentColumns, text::comments(file, text, most(Rule::CommentColumns)))
    };
    found.extend(wide.into_iter().map(|(line, is)| Found { line: Some(line), ..Found::new(rule, file, is) }));
}
