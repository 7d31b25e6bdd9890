// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the sources measure: how many modules of a crate hang together in circles, the largest structures, files and functions, and
//! some habits that are to become rarer. `cargo xtask structure` prints it all.
//!
//! A module here is one that its crate's root declares, with all modules below it. One depends on another if a path in it leads there, also
//! by a name that the root exports again. Tests do not count. Calls of methods are not seen: they name no path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The most modules of one crate that may depend on each other in circles.
const LARGEST_COMPONENT: usize = 5;

/// Crates with larger components than that, and how large they are. A component that became smaller is to be entered so.
const KNOTS: &[(&str, usize)] = &[];

/// Lines of a table that are shown.
const SHOWN: usize = 5;

/// A name by which a module's code reaches another place: segments from the crate's root.
type Route = Vec<String>;

/// One crate.
#[derive(Default)]
struct Crate {
    name: String,
    /// Modules that the root declares, with those that each depends on; and `""` for the root itself, whose names are others' names.
    uses: BTreeMap<String, BTreeSet<String>>,
    /// Names that the root exports again, or imports, and what they stand for.
    exports: BTreeMap<String, Route>,
    /// Paths to be resolved: the module that has one, and where it leads.
    routes: Vec<(String, Route)>,
    /// Named sizes: the largest of each kind is of interest.
    structures: Vec<(usize, String)>,
    functions: Vec<(usize, String)>,
    files: Vec<(usize, String)>,
    casts: usize,
    textual_errors: usize,
}

/// Looks at one module's items.
struct Look<'a> {
    of: &'a mut Crate,
    /// Where it is, from the root.
    at: Route,
    /// Modules that it declares.
    children: BTreeSet<String>,
    /// Modules in files of their own.
    found: Vec<(Route, Option<PathBuf>)>,
    file: String,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        let mut found = a.path().is_ident("test");
        if a.path().is_ident("cfg") {
            let _ = a.parse_nested_meta(|meta| {
                found |= meta.path.is_ident("test");
                Ok(())
            });
        }
        found
    })
}

/// The file that `#[path = "..."]` names.
fn named_file(attributes: &[syn::Attribute]) -> Option<PathBuf> {
    let value = attributes.iter().find(|a| a.path().is_ident("path"))?.meta.require_name_value().ok()?;
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { return None };
    Some(text.value().into())
}

/// All paths of a `use`, each with the name that it gets here.
fn leaves(tree: &syn::UseTree, before: &Route, found: &mut Vec<(String, Route)>) {
    let with = |name: &syn::Ident| [&before[..], &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), found),
        syn::UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.clone()));
        }
        syn::UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
        syn::UseTree::Rename(name) => found.push((name.rename.to_string(), with(&name.ident))),
        syn::UseTree::Glob(_) => found.push(("*".into(), before.clone())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, found)),
    }
}

impl Look<'_> {
    /// The module of the root in which this one lies.
    fn top(&self) -> String {
        self.at.first().cloned().unwrap_or_default()
    }

    /// A path as it leads from the root, if it stays in this crate.
    fn resolved(&self, path: &[String]) -> Option<Route> {
        let first = path.first()?;
        let supers = path.iter().take_while(|s| *s == "super").count();
        match first.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&self.at[..], &path[1..]].concat()),
            "super" => Some([self.at.get(..self.at.len().checked_sub(supers)?)?, &path[supers..]].concat()),
            name if self.children.contains(name) => Some([&self.at[..], path].concat()),
            _ => None,
        }
    }

    fn leads(&mut self, path: &[String]) {
        if let Some(route) = self.resolved(path) {
            self.of.routes.push((self.top(), route));
        }
    }

    fn note_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.brace_token.span.close().end().line - signature.fn_token.span.start().line + 1;
        self.of.functions.push((lines, format!("{} in {}", signature.ident, self.file)));
    }
}

impl<'ast> Visit<'ast> for Look<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(it) => &it.attrs,
            syn::Item::Impl(it) => &it.attrs,
            syn::Item::Mod(it) => &it.attrs,
            syn::Item::Struct(it) => &it.attrs,
            syn::Item::Use(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let route = [&self.at[..], &[module.ident.to_string()]].concat();
        let Some((_, items)) = &module.content else {
            self.found.push((route, named_file(&module.attrs)));
            return;
        };
        let mut inner = Look {
            at: route,
            children: declared(items),
            found: Vec::new(),
            file: self.file.clone(),
            of: &mut *self.of,
        };
        items.iter().for_each(|item| inner.visit_item(item));
        let found = inner.found;
        self.found.extend(found);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &Vec::new(), &mut found);
        for (name, path) in found {
            if let Some(route) = self.resolved(&path) {
                if self.at.is_empty() {
                    self.of.exports.insert(name, route.clone());
                }
                self.of.routes.push((self.top(), route));
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.leads(&segments);
        visit::visit_path(self, path);
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        if let Some(last) = path.path.segments.last().filter(|s| s.ident == "Result")
            && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
            && let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = arguments.args.iter().nth(1)
            && error.path.is_ident("String")
        {
            self.of.textual_errors += 1;
        }
        visit::visit_type_path(self, path);
    }

    fn visit_expr_cast(&mut self, cast: &'ast syn::ExprCast) {
        self.of.casts += 1;
        visit::visit_expr_cast(self, cast);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let open = item.fields.iter().filter(|f| !matches!(f.vis, syn::Visibility::Inherited)).count();
        let text = format!("{}, {open} of them not private, in {}", item.ident, self.file);
        self.of.structures.push((item.fields.len(), text));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note_function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.note_function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }
}

/// Names of modules that are declared here.
fn declared(items: &[syn::Item]) -> BTreeSet<String> {
    let name = |item: &syn::Item| match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

impl Crate {
    /// Reads a crate's sources; `None` where there are none.
    fn read(root: &Path, directory: &Path) -> Option<Crate> {
        let name = directory.file_name()?.to_string_lossy().into_owned();
        let source = directory.join("src");
        let first =
            ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().find(|file| file.exists())?;
        let mut this = Crate { name, ..Crate::default() };
        let mut waiting = vec![(Route::new(), first, source)];
        while let Some((at, file, below)) = waiting.pop() {
            this.read_file(root, at, &file, &below, &mut waiting);
        }
        this.resolve();
        Some(this)
    }

    /// Reads a module's file, whose modules lie in the directory `below`.
    fn read_file(
        &mut self,
        root: &Path,
        at: Route,
        file: &Path,
        below: &Path,
        waiting: &mut Vec<(Route, PathBuf, PathBuf)>,
    ) {
        let text = crate::tidy::read(file);
        let Ok(parsed) = syn::parse_file(&text) else { return };
        let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
        self.files.push((crate::tidy::lines_of_code(&text), shown.clone()));
        self.uses.entry(at.first().cloned().unwrap_or_default()).or_default();
        let children = declared(&parsed.items);
        let mut look = Look { of: self, at: at.clone(), children, found: Vec::new(), file: shown };
        parsed.items.iter().for_each(|item| look.visit_item(item));
        for (route, named) in look.found {
            let inner: PathBuf = route[at.len()..].iter().collect();
            let directory = below.join(&inner);
            let beside = named.map(|named| file.parent().unwrap_or(below).join(named));
            let places = [beside, Some(directory.with_extension("rs")), Some(directory.join("mod.rs"))];
            let is_there = |place: &PathBuf| place.exists();
            if let Some(place) = places.into_iter().flatten().find(is_there) {
                waiting.push((route, place, directory));
            }
        }
    }

    /// Makes dependencies of routes.
    fn resolve(&mut self) {
        for (from, route) in std::mem::take(&mut self.routes) {
            let to = self.target(&route, 0);
            let counts = !from.is_empty() && !to.is_empty() && to != from;
            if counts && self.uses.contains_key(&to) {
                self.uses.entry(from).or_default().insert(to);
            }
        }
    }

    /// The module of the root that a route ends in.
    fn target(&self, route: &Route, depth: usize) -> String {
        let Some(first) = route.first() else { return String::new() };
        match self.exports.get(first) {
            _ if self.uses.contains_key(first) => first.clone(),
            Some(other) if depth < 8 => self.target(other, depth + 1),
            _ => String::new(),
        }
    }

    /// Lines of code.
    fn lines(&self) -> usize {
        self.files.iter().map(|(lines, _)| lines).sum()
    }

    /// Modules that each depend on each other, the largest such set.
    fn component(&self) -> Vec<&str> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.uses.keys().map(|from| (from.as_str(), self.reached(from))).collect();
        let circle = |from: &&str| -> Vec<&str> {
            let back = |to: &&&str| reach[**to].contains(from);
            reach[from].iter().filter(back).copied().collect()
        };
        reach.keys().map(circle).max_by_key(Vec::len).unwrap_or_default()
    }

    fn reached<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(next) = waiting.pop() {
            for to in &self.uses[next] {
                if found.insert(to.as_str()) {
                    waiting.push(to);
                }
            }
        }
        found
    }
}

fn crates(root: &Path) -> Vec<Crate> {
    let mut directories: Vec<PathBuf> =
        std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|e| e.path()).collect();
    directories.sort();
    directories.iter().filter_map(|directory| Crate::read(root, directory)).collect()
}

/// No crate's modules hang together more than they may.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) {
    for one in crates(root) {
        let size = one.component().len();
        let known = KNOTS.iter().find(|(name, _)| *name == one.name).map(|(_, size)| *size);
        let most = known.unwrap_or(LARGEST_COMPONENT);
        let names = one.component().join(" ");
        if size > most {
            wrong.push(format!(
                "crates/{}: {size} modules depend on each other, at most {most} may: {names}",
                one.name
            ));
        } else if known.is_some_and(|known| size < known) {
            wrong.push(format!(
                "crates/{}: {size} modules depend on each other; say so in xtask's KNOTS",
                one.name
            ));
        }
    }
}

/// Prints everything.
pub(crate) fn main(root: &Path) {
    let all = crates(root);
    println!(
        "{:14} {:>6} {:>8} {:>8} {:>10} {:>6}",
        "crate", "files", "lines", "modules", "component", "casts"
    );
    for one in &all {
        let (modules, component) = (one.uses.len() - 1, one.component());
        println!(
            "{:14} {:6} {:8} {modules:8} {:10} {:6}",
            one.name,
            one.files.len(),
            one.lines(),
            component.len(),
            one.casts
        );
        if component.len() > LARGEST_COMPONENT {
            println!("{:14} {}", "", component.join(" "));
        }
    }
    let sum = |of: fn(&Crate) -> usize| all.iter().map(of).sum::<usize>();
    println!("\nResult<_, String>: {}; casts: {}", sum(|c| c.textual_errors), sum(|c| c.casts));
    let largest = |what: &str, of: fn(&Crate) -> &Vec<(usize, String)>| {
        let mut found: Vec<_> = all.iter().flat_map(of).collect();
        found.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        println!("\n{what}:");
        found.iter().take(SHOWN).for_each(|(size, text)| println!("{size:6} {text}"));
    };
    largest("fields of structures", |c| &c.structures);
    largest("lines of functions", |c| &c.functions);
    largest("lines of code of files", |c| &c.files);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of these files.
    fn crate_of(files: &[(&str, &str)]) -> Crate {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let place = directory.path().join("src").join(name);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        Crate::read(directory.path(), directory.path()).unwrap()
    }

    #[test]
    fn circles_are_found_by_every_kind_of_path() {
        let a_to = |text: &str| {
            let root = "mod a; mod b; mod c; pub use b::Thing; pub use self::Thing as Other;";
            let found = crate_of(&[
                ("lib.rs", root),
                ("a.rs", text),
                ("a/deep.rs", "fn f() { super::super::c::g() }"),
                ("b.rs", "use crate::a; pub struct Thing;"),
                ("c.rs", "pub fn g() {}"),
            ]);
            found.component().join(" ")
        };
        for text in [
            "use crate::b::Thing;",
            "use super::b;",
            "fn f() -> crate::Thing { todo!() }",
            "fn f(_: super::Other) {}",
            "fn f() { let _ = crate::b::Thing; }",
            "mod inner { use super::super::b::Thing; }",
            "use crate::{b::{self as other}, c};",
        ] {
            assert_eq!(a_to(text), "a b", "{text}");
        }
        for text in
            ["", "mod deep;", "mod b {} use self::b as other;", "#[cfg(test)] mod tests { use crate::b; }"]
        {
            assert_eq!(a_to(text), "", "{text}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_text() {
        let found = crate_of(&[(
            "lib.rs",
            "pub struct S { pub a: u8, b: u8 }\nimpl S {\n    fn f(&self) -> Result<u8, String> {\n        Ok(self.b as u8)\n    }\n}\n",
        )]);
        assert_eq!((found.casts, found.textual_errors, found.lines()), (1, 1, 6));
        assert_eq!(found.structures, [(2, "S, 1 of them not private, in src/lib.rs".to_owned())]);
        assert_eq!(found.functions, [(3, "f in src/lib.rs".to_owned())]);
    }
}
