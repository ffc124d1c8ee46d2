//! The rooms of the code base, their lines, and the table of permitted imports.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Import, Imported};
use super::tree::{Package, Tree};

/// Packages whose modules are separate rooms, in addition to the package in the root.
const OF_MODULES: [&str; 2] = ["crates/trace", "crates/cli"];
const BEGIN: &str = "<!-- imports -->";
const END: &str = "<!-- end imports -->";

#[derive(Default)]
pub(super) struct Room {
    pub(super) files: usize,
    pub(super) production: usize,
    pub(super) test: usize,
}

pub(super) fn of(tree: &Tree, file: &str) -> String {
    let package = tree.package(file);
    let folder = package.map_or("", |package| package.folder.as_str());
    let inside = package.and_then(|package| package.relative(file)).unwrap_or(file);
    let mut parts = inside.split('/');
    let top = parts.next().unwrap_or_default();
    let second = parts.next().map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let module = second.filter(|part| top == "src" && !matches!(*part, "lib" | "main"));
    match (folder, module) {
        ("", Some(module)) => format!("src/{module}"),
        ("", None) => top.to_owned(),
        (folder, Some(module)) if OF_MODULES.contains(&folder) => format!("{folder}/{module}"),
        (folder, _) => folder.to_owned(),
    }
}

/// Files and lines of the product, of tests (including those inside the product), of the doubles, and of the project's
/// own commands.
pub(super) fn categories(rooms: &BTreeMap<String, Room>) -> BTreeMap<&'static str, (usize, usize)> {
    let mut categories: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, room) in rooms {
        let (category, of_tests) = match name.as_str() {
            name if name.starts_with("tests/doubles/") => ("doubles", "doubles"),
            name if name.starts_with("tests") || name.starts_with("benches") => ("tests", "tests"),
            "xtask" => ("xtask", "xtask"),
            _ => ("product", "tests"),
        };
        let (files, lines) = categories.entry(category).or_default();
        *files += room.files;
        *lines += room.production;
        categories.entry(of_tests).or_default().1 += room.test;
    }
    categories
}

/// The table in `docs/DESIGN.md`: a room, and what it may import.
pub(super) struct Table {
    rows: BTreeMap<String, BTreeSet<String>>,
    /// Rows that name several rooms, which must not import each other.
    apart: Vec<BTreeSet<String>>,
}

impl Table {
    /// `None` if the page has no table.
    pub(super) fn read(page: &str) -> Option<Self> {
        let table = page.split_once(BEGIN)?.1.split_once(END)?.0;
        let rows = table.lines().filter_map(|line| {
            let mut cells = line.trim().strip_prefix('|')?.split('|').map(|cell| cell.replace('`', " "));
            let room = plain(&cells.next()?);
            let rule = room.chars().all(|c| "-: ".contains(c));
            let list = cells.next()?;
            let words = list
                .split([',', ' '])
                .map(plain)
                .filter(|word| !matches!(word.as_str(), "" | "-" | "–" | "—" | "nothing"));
            (!rule && room != "room").then(|| (room, words.collect()))
        });
        let (apart, rows): (BTreeMap<_, _>, _) = rows.partition(|(room, _): &(String, _)| room.contains(','));
        Some(Self { rows, apart: apart.keys().map(|rooms| rooms.split(',').map(plain).collect()).collect() })
    }

    pub(super) fn packages(&self, tree: &Tree) -> Vec<String> {
        let mut wrong = Vec::new();
        for package in &tree.packages {
            let Some(allowed) = self.rows.get(short(package)).or_else(|| self.rows.get(&package.name)) else {
                continue;
            };
            let used = package.uses.iter().filter_map(|name| tree.packages.iter().find(|other| other.name == **name));
            for other in used.filter(|other| !allowed.contains(short(other)) && !allowed.contains(&other.name)) {
                wrong.push(format!("{} depends on {}", short(package), short(other)));
            }
        }
        wrong
    }

    /// Violations in a package's modules, by the table's rows; each pair of rooms once.
    pub(super) fn modules(&self, tree: &Tree, package: &Package, code: &Crate<'_>, imports: &[Import]) -> Vec<String> {
        let folder = if package.folder.is_empty() { String::new() } else { format!("{}/", short(package)) };
        let room = |module: usize| Some(format!("{folder}{}", code.modules.get(module)?.path.first()?));
        let rooms: BTreeSet<String> = (0..code.modules.len()).filter_map(room).collect();
        let has_rows = rooms.iter().any(|room| self.rows.contains_key(room));
        let without = rooms.iter().filter(|room| has_rows && !self.rows.contains_key(*room));
        let mut wrong: BTreeMap<String, String> =
            without.map(|room| (format!("{room} has no row"), String::new())).collect();
        for import in imports {
            let to = match &import.to {
                Imported::Module(to) => room(*to),
                Imported::Crate(name) => {
                    let mut packages = tree.packages.iter();
                    packages.find(|package| package.library() == Some(name)).map(|package| short(package).to_owned())
                }
            };
            let (Some(from), Some(to)) = (room(import.from), to) else {
                continue;
            };
            // Within a crate, a row may name a module without the crate.
            let own = to.strip_prefix(&folder).unwrap_or(&to);
            let is_allowed = match self.rows.get(&from) {
                Some(allowed) => allowed.contains(&to) || allowed.contains(own),
                None => !self.apart.iter().any(|rooms| rooms.contains(&from) && rooms.contains(&to)),
            };
            if from != to && !is_allowed {
                let file = code.modules.get(import.from).map_or("", |module| &module.file);
                let first = format!(" ({file}:{} {})", import.line, import.path);
                wrong.entry(format!("{from} imports {to}")).or_insert(first);
            }
        }
        wrong.into_iter().map(|(what, first)| what + &first).collect()
    }
}

fn plain(word: &str) -> String {
    let word = word.trim().trim_end_matches('/');
    let word = word.strip_prefix("src/").or_else(|| word.strip_prefix("crates/")).unwrap_or(word);
    word.replace("/src/", "/")
}

/// The last component of its folder; in the root, the library's name.
pub(super) fn short(package: &Package) -> &str {
    let folder = package.folder.rsplit('/').next().filter(|name| !name.is_empty());
    folder.or_else(|| package.library()).unwrap_or(&package.name)
}
