//! The contents of one Rust file: its functions and tests, what its modules define, and the paths they use.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

use anyhow::{Result, anyhow};

use super::paths::{self, How, Used};

#[derive(Default)]
pub(super) struct Source {
    pub(super) lines: usize,
    pub(super) test_lines: usize,
    /// Whether the whole file is for tests only.
    pub(super) only_tests: bool,
    pub(super) functions: Vec<Function>,
    pub(super) scopes: Vec<Scope>,
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// A module: the file, or an inline module in it.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) items: BTreeMap<String, Vec<Definition>>,
    pub(super) globs: Vec<Import>,
    pub(super) used: Vec<Used>,
    pub(super) macros: Vec<String>,
}

pub(super) struct Definition {
    pub(super) public: bool,
    pub(super) what: What,
}

pub(super) enum What {
    Item,
    /// `mod name;`, with the file that an attribute may name.
    File(Option<String>),
    Inline(usize),
    Import(Vec<String>),
}

pub(super) struct Import {
    pub(super) public: bool,
    pub(super) path: Vec<String>,
}

pub(super) fn read(name: &str, text: &str) -> Result<Source> {
    let file = syn::parse_file(text).map_err(|error| {
        let at = error.span().start();
        anyhow!("{name}:{}: {error}", at.line)
    })?;
    let mut reader = Reader::default();
    reader.source.scopes.push(Scope::default());
    reader.source.only_tests = file.attrs.iter().any(is_test);
    reader.visit_file(&file);
    let mut source = reader.source;
    source.lines = text.lines().count();
    if source.only_tests {
        source.test_lines = source.lines;
    }
    Ok(source)
}

#[derive(Default)]
struct Reader {
    source: Source,
    scope: usize,
    tests: usize,
    /// Depth of enclosing functions: items inside them are not the module's.
    bodies: usize,
}

impl Reader {
    fn scope(&mut self) -> Option<&mut Scope> {
        if self.tests > 0 { None } else { self.source.scopes.get_mut(self.scope) }
    }

    fn define(&mut self, name: String, public: bool, what: What) {
        if let Some(scope) = self.scope() {
            scope.items.entry(name).or_default().push(Definition { public, what });
        }
    }

    fn used(&mut self, path: Vec<String>, span: Span, how: How) {
        if let Some(scope) = self.scope() {
            scope.used.push(Used { path, line: span.start().line, how });
        }
    }

    fn guarded(&mut self, attributes: &[Attribute], span: Span, visit: impl FnOnce(&mut Self)) {
        let test = attributes.iter().any(is_test);
        if test && self.tests == 0 {
            self.source.test_lines += lines(span);
        }
        self.tests += usize::from(test);
        visit(self);
        self.tests -= usize::from(test);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.span().start().line;
        let lines = block.span().end().line + 1 - line;
        self.source.functions.push(Function { name: signature.ident.to_string(), line, lines });
    }

    fn import(&mut self, tree: &UseTree, path: &mut Vec<String>, public: bool) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path, public);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, path, public)),
            UseTree::Name(name) => self.import_one(path, &name.ident, &name.ident, public),
            UseTree::Rename(name) => self.import_one(path, &name.ident, &name.rename, public),
            UseTree::Glob(glob) => {
                self.used(path.clone(), glob.star_token.span(), reexport(public));
                let path = path.clone();
                if let Some(scope) = self.scope() {
                    scope.globs.push(Import { public, path });
                }
            }
        }
    }

    fn import_one(&mut self, path: &[String], name: &Ident, rename: &Ident, public: bool) {
        let mut path = path.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        self.used(path.clone(), name.span(), reexport(public));
        let own = if rename == "self" { path.last().cloned() } else { Some(rename.to_string()) };
        if let Some(name) = own.filter(|name| name != "_") {
            self.define(name, public, What::Import(path));
        }
    }

    fn path(&mut self, path: &syn::Path, how: How) {
        let words = path.segments.iter().map(|part| part.ident.to_string());
        self.used(words.collect(), path.span(), how);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, named) = parts(item);
        self.guarded(attributes, item.span(), |reader| {
            if let Some((name, public)) = named.filter(|_| reader.bodies == 0) {
                reader.define(name.to_string(), public, What::Item);
            }
            visit::visit_item(reader, item);
        });
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let (name, public) = (module.ident.to_string(), is_public(&module.vis));
        let Some((_, items)) = &module.content else {
            self.define(name, public, What::File(module.attrs.iter().find_map(path_attribute)));
            return;
        };
        let outer = self.scope;
        let inner = self.source.scopes.len();
        self.source.scopes.push(Scope::default());
        self.define(name, public, What::Inline(inner));
        self.scope = inner;
        for item in items {
            self.visit_item(item);
        }
        self.scope = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // Restricted visibility also re-exports: an import from here counts as one from the defining file.
        let public = !matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, &mut Vec::new(), public);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        self.bodies += 1;
        visit::visit_item_fn(self, item);
        self.bodies -= 1;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.guarded(&item.attrs, item.span(), |reader| {
            reader.function(&item.sig, &item.block);
            reader.bodies += 1;
            visit::visit_impl_item_fn(reader, item);
            reader.bodies -= 1;
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        self.bodies += 1;
        visit::visit_trait_item_fn(self, item);
        self.bodies -= 1;
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(name) = &item.ident
            && let Some(scope) = self.scope()
        {
            scope.macros.push(name.to_string());
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.path(&mac.path, How::Macro);
        if let Some(scope) = self.scope() {
            paths::in_tokens(mac.tokens.clone(), &mut scope.used);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path, How::Code);
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn reexport(public: bool) -> How {
    if public { How::Reexport } else { How::Code }
}

fn lines(span: Span) -> usize {
    span.end().line + 1 - span.start().line
}

/// `#[test]`, or a `#[cfg(…)]` that requires `test`.
fn is_test(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.is_ident("test")
        || path.is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if asks_for_test(list.tokens.clone()))
}

fn asks_for_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "test" => return true,
            TokenTree::Ident(word) => {
                negated = word == "not";
                continue;
            }
            TokenTree::Group(group) if !negated && asks_for_test(group.stream()) => return true,
            _ => {}
        }
        negated = false;
    }
    false
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
        return None;
    };
    pair.path.is_ident("path").then(|| text.value())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

type Parts<'a> = (&'a [Attribute], Option<(&'a Ident, bool)>);

/// The attributes of an item and, unless it is a module or an import, its name and whether it is public.
fn parts(item: &Item) -> Parts<'_> {
    let (attributes, name, visibility) = match item {
        Item::Const(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Enum(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Fn(item) => (&item.attrs, &item.sig.ident, &item.vis),
        Item::Static(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Struct(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Trait(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Type(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Union(item) => (&item.attrs, &item.ident, &item.vis),
        Item::Macro(item) => {
            let is_exported = |one: &Attribute| one.path().is_ident("macro_export");
            let exported = item.attrs.iter().any(is_exported);
            return (&item.attrs, item.ident.as_ref().map(|name| (name, exported)));
        }
        Item::ForeignMod(item) => return (&item.attrs, None),
        Item::Impl(item) => return (&item.attrs, None),
        Item::Mod(item) => return (&item.attrs, None),
        Item::Use(item) => return (&item.attrs, None),
        _ => return (&[], None),
    };
    (attributes, Some((name, is_public(visibility))))
}
