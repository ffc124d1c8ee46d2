//! The modules of a crate, and their imports of each other.
//!
//! A path counts as an import of the file that defines what it names: re-exports are followed. Declaring or
//! re-exporting a child does not count as an import.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{How, Used};
use super::source::{Definition, Source, What};

pub(super) type Sources = BTreeMap<String, Source>;

pub(super) struct Crate<'a> {
    pub(super) modules: Vec<Module<'a>>,
    macros: BTreeMap<&'a str, usize>,
    others: BTreeSet<&'a str>,
}

pub(super) struct Module<'a> {
    pub(super) path: Vec<String>,
    pub(super) file: String,
    source: &'a Source,
    scope: usize,
    parent: Option<usize>,
    home: usize,
}

pub(super) struct Import {
    pub(super) from: usize,
    pub(super) to: Imported,
    pub(super) path: String,
    pub(super) line: usize,
}

pub(super) enum Imported {
    Module(usize),
    Crate(String),
}

#[derive(Clone)]
enum Place {
    Module(usize),
    Item(usize),
    Crate(String),
    Unknown,
}

const LONGEST_CHAIN: usize = 8;

impl<'a> Crate<'a> {
    /// The modules below a root file that are compiled into the product.
    pub(super) fn read(sources: &'a Sources, root: &str, others: BTreeSet<&'a str>) -> Self {
        let mut modules = Self { modules: Vec::new(), macros: BTreeMap::new(), others };
        let folder = root.rfind('/').map_or("", |end| root.split_at(end + 1).0);
        if let Some(source) = sources.get(root) {
            let module = Module { path: Vec::new(), file: root.to_owned(), source, scope: 0, parent: None, home: 0 };
            modules.add(sources, module, folder);
        }
        modules
    }

    fn add(&mut self, sources: &'a Sources, module: Module<'a>, folder: &str) {
        let this = self.modules.len();
        let (source, number, home) = (module.source, module.scope, module.home);
        let (path, file) = (module.path.clone(), module.file.clone());
        self.modules.push(module);
        let Some(scope) = source.scopes.get(number) else {
            return;
        };
        self.macros.extend(scope.macros.iter().map(|name| (name.as_str(), home)));
        for (name, definition) in scope.items.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one))) {
            let path = path.iter().chain([name]).cloned().collect();
            let below = format!("{folder}{name}");
            let parent = Some(this);
            match &definition.what {
                What::Inline(scope) => {
                    let module = Module { path, file: file.clone(), source, scope: *scope, parent, home };
                    self.add(sources, module, &format!("{below}/"));
                }
                What::File(named) => {
                    let named = named.as_ref().map(|named| beside(&file, named));
                    let candidates = [named.unwrap_or_else(|| format!("{below}.rs")), format!("{below}/mod.rs")];
                    let found = candidates.iter().find_map(|file| Some((file, sources.get(file)?)));
                    let Some((file, source)) = found else {
                        continue;
                    };
                    if source.only_tests {
                        continue;
                    }
                    let home = self.modules.len();
                    let module = Module { path, file: file.clone(), source, scope: 0, parent, home };
                    self.add(sources, module, &format!("{below}/"));
                }
                _ => {}
            }
        }
    }

    /// Imports between files; each pair of files once, with its first import.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut seen = BTreeSet::new();
        let mut imports = Vec::new();
        for (number, module) in self.modules.iter().enumerate() {
            for used in module.source.scopes.get(module.scope).into_iter().flat_map(|scope| &scope.used) {
                let Some(to) = self.imported(number, used) else {
                    continue;
                };
                let key = match &to {
                    Imported::Module(to) => self.name(*to),
                    Imported::Crate(name) => format!("::{name}"),
                };
                if seen.insert((module.home, key)) {
                    imports.push(Import { from: module.home, to, path: used.path.join("::"), line: used.line });
                }
            }
        }
        imports
    }

    fn imported(&self, from: usize, used: &Used) -> Option<Imported> {
        let place = match self.resolve(from, &used.path, 0) {
            Place::Unknown if used.how == How::Macro => Place::Item(*self.macros.get(used.path.last()?.as_str())?),
            place => place,
        };
        match place {
            Place::Crate(name) => Some(Imported::Crate(name)),
            Place::Item(to) => {
                let (from, to) = (self.modules.get(from)?.home, self.modules.get(to)?.home);
                let (own, other) = (&self.modules.get(from)?.path, &self.modules.get(to)?.path);
                let reexport = used.how == How::Reexport && other.starts_with(own);
                (from != to && !reexport).then_some(Imported::Module(to))
            }
            Place::Module(_) | Place::Unknown => None,
        }
    }

    pub(super) fn name(&self, module: usize) -> String {
        self.modules.get(module).map_or_else(String::new, |module| {
            std::iter::once("crate").chain(module.path.iter().map(String::as_str)).collect::<Vec<_>>().join("::")
        })
    }

    pub(super) fn public(&self) -> BTreeSet<String> {
        let mut items = BTreeSet::new();
        self.public_of(0, &mut items, &mut BTreeSet::new());
        items
    }

    fn public_of(&self, number: usize, items: &mut BTreeSet<String>, seen: &mut BTreeSet<usize>) {
        let Some(module) = self.modules.get(number).filter(|_| seen.insert(number)) else {
            return;
        };
        let Some(scope) = module.source.scopes.get(module.scope) else {
            return;
        };
        for (name, definition) in scope.items.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one))) {
            if !definition.public {
                continue;
            }
            let path = match &definition.what {
                What::Import(path) => path.clone(),
                _ => vec!["self".to_owned(), name.clone()],
            };
            match self.resolve(number, &path, 0) {
                Place::Module(module) => self.public_of(module, items, seen),
                Place::Item(at) => {
                    let name = path.last().unwrap_or(name);
                    items.insert(format!("{}::{name}", self.name(at)));
                }
                Place::Crate(_) | Place::Unknown => {
                    items.insert(path.join("::"));
                }
            }
        }
        for glob in scope.globs.iter().filter(|glob| glob.public) {
            if let Place::Module(module) = self.resolve(number, &glob.path, 0) {
                self.public_of(module, items, seen);
            }
        }
    }

    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Place {
        let Some((first, rest)) = path.split_first() else {
            return Place::Unknown;
        };
        let start = match first.as_str() {
            "crate" => Place::Module(0),
            "self" => Place::Module(from),
            "super" => self.parent(from),
            name => match self.look(from, name, rest.is_empty(), depth) {
                Place::Unknown => self.other(name),
                place => place,
            },
        };
        let mut place = start;
        for (number, name) in rest.iter().enumerate() {
            let Place::Module(module) = place else { break };
            place = match name.as_str() {
                "super" => self.parent(module),
                name => match self.look(module, name, number + 1 == rest.len(), depth) {
                    // A macro may have defined it.
                    Place::Unknown => Place::Item(self.macros.get(name).copied().unwrap_or(module)),
                    place => place,
                },
            };
        }
        place
    }

    fn parent(&self, module: usize) -> Place {
        self.modules.get(module).and_then(|module| module.parent).map_or(Place::Unknown, Place::Module)
    }

    fn other(&self, name: &str) -> Place {
        if self.others.contains(name) { Place::Crate(name.to_owned()) } else { Place::Unknown }
    }

    fn look(&self, module: usize, name: &str, last: bool, depth: usize) -> Place {
        let Some(scope) = self.modules.get(module).and_then(|module| module.source.scopes.get(module.scope)) else {
            return Place::Unknown;
        };
        if depth > LONGEST_CHAIN {
            return Place::Unknown;
        }
        let definitions = scope.items.get(name).map_or(&[][..], Vec::as_slice);
        let is_item = |definition: &Definition| matches!(definition.what, What::Item);
        if definitions.iter().any(is_item) && (last || definitions.len() == 1) {
            return Place::Item(module);
        }
        for definition in definitions {
            let place = match &definition.what {
                What::File(_) | What::Inline(_) => self.child(module, name),
                // `use name::…` with the same name refers to a crate.
                What::Import(path) if path.first().is_some_and(|first| first == name) => {
                    match self.child(module, name) {
                        Place::Module(_) if path.len() > 1 => self.resolve(module, &relative(path), depth + 1),
                        Place::Unknown => self.other(name),
                        place => place,
                    }
                }
                What::Import(path) => self.resolve(module, path, depth + 1),
                What::Item => Place::Unknown,
            };
            if !matches!(place, Place::Unknown) {
                return place;
            }
        }
        for glob in &scope.globs {
            if let Place::Module(from) = self.resolve(module, &glob.path, depth + 1)
                && from != module
                && let place @ (Place::Module(_) | Place::Item(_) | Place::Crate(_)) =
                    self.look(from, name, last, depth + 1)
            {
                return place;
            }
        }
        Place::Unknown
    }

    fn child(&self, module: usize, name: &str) -> Place {
        let is_child =
            |child: &Module<'_>| child.parent == Some(module) && child.path.last().is_some_and(|n| n == name);
        self.modules.iter().position(is_child).map_or(Place::Unknown, Place::Module)
    }
}

fn relative(path: &[String]) -> Vec<String> {
    std::iter::once("self".to_owned()).chain(path.iter().cloned()).collect()
}

/// The path of a file named by `#[path]` in the file that declares it.
fn beside(file: &str, named: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in named.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
