// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tree to bodies: statements are taken in order, and every name gets its meaning at the place where it stands.
//!
//! Class names are scoped lexically and by position: a definition counts from its end to the end of the compound around
//! it, so a class can wrap an older class of the same name and can never contain itself. Elements are known in their own
//! body only.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::Options;
use crate::ast::{
    BodyDef, Chain, ClassDef, ClassRef, CompoundDef, Config, Ident, Item, Link, Ports, Stmt, What,
};
use crate::config::{Arg, shift_word, split_args, split_words, unquote_string};
use crate::connect::{End, join};
use crate::diagnostic::{Diagnostic, Sink};
use crate::graph::Requirement;
use crate::library;
use crate::program::{Body, BodyId, Definition, Parameter, Program, Slot, SlotKind, Type, TypeId, Wire};
use crate::source::{SourceMap, Span};
use crate::suggest::suggest;

/// Libraries that require libraries, this deep at most.
const MAX_LIBRARY_DEPTH: usize = 32;

/// A body under construction.
struct Builder {
    body: Body,
    names: HashMap<String, usize>,
    /// Slots that `input` and `output` mean, innermost last: the compound's own, then those of open groups.
    pseudo: Vec<[usize; 2]>,
    /// Ports in use of each pseudo element, and a place where it's used the wrong way round.
    pseudo_use: HashMap<usize, (BTreeSet<u32>, Option<Span>)>,
    /// Slots that exist before the first element is numbered.
    first_number: usize,
    /// Undeclared names already complained about, and what stands in for them.
    undeclared: HashMap<String, usize>,
}

impl Builder {
    fn new(name: &str, span: Span, depth: usize) -> Builder {
        let body = Body {
            name: name.to_string(),
            span,
            depth,
            parameters: Vec::new(),
            defines: Vec::new(),
            ports: [0, 0],
            next: None,
            slots: Vec::new(),
            wires: Vec::new(),
            expanded: false,
        };
        let mut builder = Builder {
            body,
            names: HashMap::new(),
            pseudo: Vec::new(),
            pseudo_use: HashMap::new(),
            first_number: 0,
            undeclared: HashMap::new(),
        };
        if depth > 0 {
            let pair = builder.add_pseudo(span);
            builder.pseudo.push(pair);
            builder.first_number = 2;
        }
        builder
    }

    fn add(&mut self, name: String, kind: SlotKind, span: Span) -> usize {
        self.body.slots.push(Slot {
            name,
            kind,
            config: String::new(),
            span,
            class_span: span,
            config_span: None,
            ports: [0, 0],
            anonymous: false,
        });
        self.body.slots.len() - 1
    }

    fn add_pseudo(&mut self, span: Span) -> [usize; 2] {
        let input = self.add("input".into(), SlotKind::Input, span);
        let output = self.add("output".into(), SlotKind::Output, span);
        self.pseudo_use.insert(input, Default::default());
        self.pseudo_use.insert(output, Default::default());
        [input, output]
    }

    fn find(&self, name: &str) -> Option<usize> {
        match (name, self.pseudo.last()) {
            ("input", Some(pair)) => Some(pair[0]),
            ("output", Some(pair)) => Some(pair[1]),
            _ => self.names.get(name).copied(),
        }
    }

    fn anonymous_name(&self, class: &str) -> String {
        format!("{class}@{}", self.body.slots.len() - self.first_number + 1)
    }

    fn connect(&mut self, from: (usize, u32), to: (usize, u32), span: Span) {
        for (slot, port, side) in [(to.0, to.1, 0), (from.0, from.1, 1)] {
            let used = &mut self.body.slots[slot].ports[side];
            *used = (*used).max(port.saturating_add(1));
            let Some((ports, misuse)) = self.pseudo_use.get_mut(&slot) else { continue };
            let right_side = if self.body.slots[slot].kind == SlotKind::Input { 1 } else { 0 };
            if side == right_side {
                ports.insert(port);
            } else {
                misuse.get_or_insert(span);
            }
        }
        self.body.wires.push(Wire { from, to, span });
    }
}

/// Everything that the file and its libraries say.
pub(crate) struct Resolved {
    pub(crate) program: Program,
    pub(crate) requirements: Vec<Requirement>,
    /// `elementclass` names that nothing uses: name, place.
    pub(crate) unused_classes: Vec<(String, Span)>,
}

/// Resolves the statements of a file.
pub(crate) fn resolve(
    sources: &mut SourceMap,
    sink: &mut Sink,
    options: &Options,
    main: Option<PathBuf>,
    file: u32,
    statements: &[Stmt],
) -> Resolved {
    let span = Span { file, start: 0, end: 0 };
    let mut resolver = Resolver {
        sources,
        sink,
        options,
        known: options.classes.iter().map(String::as_str).collect(),
        program: Program { types: Vec::new(), bodies: vec![Builder::new("", span, 0).body] },
        types: HashMap::new(),
        hidden: Vec::new(),
        primitives: HashMap::new(),
        defining: Vec::new(),
        builders: vec![Builder::new("", span, 0)],
        classes: Vec::new(),
        used_types: HashSet::new(),
        requirements: Vec::new(),
        libraries: main.into_iter().collect(),
        library_depth: 0,
    };
    resolver.statements(statements);
    let top = resolver.finish_body();
    resolver.program.bodies[crate::program::TOP] = top;
    let used = resolver.used_types;
    let unused = resolver.classes.into_iter().filter(|(_, _, id)| !used.contains(id));
    Resolved {
        program: resolver.program,
        requirements: resolver.requirements,
        unused_classes: unused.map(|(name, span, _)| (name, span)).collect(),
    }
}

struct Resolver<'a> {
    sources: &'a mut SourceMap,
    sink: &'a mut Sink,
    options: &'a Options,
    /// Classes of the engine; empty if not told.
    known: HashSet<&'a str>,
    program: Program,
    /// Classes defined by the configuration, as seen from here.
    types: HashMap<String, TypeId>,
    /// What `types` said before each definition made in an open compound, to go back to.
    hidden: Vec<(String, Option<TypeId>)>,
    primitives: HashMap<String, TypeId>,
    /// Names of the classes whose definitions are open.
    defining: Vec<String>,
    builders: Vec<Builder>,
    /// `elementclass` statements of the main file.
    classes: Vec<(String, Span, TypeId)>,
    used_types: HashSet<TypeId>,
    requirements: Vec<Requirement>,
    libraries: HashSet<PathBuf>,
    library_depth: usize,
}

impl<'a> Resolver<'a> {
    fn here(&mut self) -> &mut Builder {
        self.builders.last_mut().expect("the file's own body is always open")
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Class(class) => self.class_def(class),
                Stmt::Require(config) => self.require(config),
                Stmt::Define(config) => self.define(config),
                Stmt::Chain(chain) => self.chain(chain),
            }
        }
    }

    // ---- classes ----

    fn new_type(&mut self, kind: Type) -> TypeId {
        self.program.types.push(kind);
        self.program.types.len() - 1
    }

    fn set_type(&mut self, name: &str, id: TypeId) {
        let before = self.types.insert(name.to_string(), id);
        self.hidden.push((name.to_string(), before));
    }

    fn primitive(&mut self, name: &str) -> TypeId {
        if let Some(&id) = self.primitives.get(name) {
            return id;
        }
        let id = self.new_type(Type::Primitive(name.to_string()));
        self.primitives.insert(name.to_string(), id);
        id
    }

    /// The type of a name that must be a class.
    fn class_named(&mut self, name: &Ident) -> TypeId {
        if let Some(&id) = self.types.get(&name.text) {
            self.used_types.insert(id);
            return id;
        }
        if self.known.is_empty() || self.known.contains(name.text.as_str()) {
            return self.primitive(&name.text);
        }
        let mut diagnostic =
            Diagnostic::error("E0203", format!("unknown element class '{}'", name.text)).at(name.span);
        if self.defining.contains(&name.text) {
            diagnostic = diagnostic
                .label("not known inside its own definition")
                .help("element classes are not recursive: inside, the name means what it meant before");
        } else {
            diagnostic = diagnostic.did_you_mean(self.near_class(&name.text).as_deref());
        }
        self.sink.push(diagnostic);
        let id = self.new_type(Type::Broken);
        self.set_type(&name.text, id);
        id
    }

    fn near_class(&mut self, name: &str) -> Option<String> {
        if !self.sink.may_suggest() {
            return None;
        }
        let known = self.known.iter().copied().chain(self.types.keys().map(String::as_str));
        suggest(name, known).map(str::to_string)
    }

    fn class_def(&mut self, class: &ClassDef) {
        let name = &class.name;
        let id = match &class.class {
            ClassRef::Named(old) => {
                let old = self.class_named(old);
                let kind = match &self.program.types[old] {
                    Type::Primitive(name) => Type::Primitive(name.clone()),
                    Type::Compound(body) => Type::Compound(*body),
                    Type::Broken => Type::Broken,
                };
                self.new_type(kind)
            }
            ClassRef::Compound(compound) => {
                self.defining.push(name.text.clone());
                let id = self.compound(compound, name);
                self.defining.pop();
                id
            }
        };
        if name.text.is_empty() {
            return;
        }
        self.set_type(&name.text, id);
        if name.span.file == 0 && self.builders.len() == 1 {
            self.classes.push((name.text.clone(), name.span, id));
        }
    }

    fn class_ref(&mut self, class: &ClassRef) -> (TypeId, Span) {
        match class {
            ClassRef::Named(name) => (self.class_named(name), name.span),
            ClassRef::Compound(compound) => {
                let anonymous = Ident { text: String::new(), span: compound.span };
                (self.compound(compound, &anonymous), compound.span)
            }
        }
    }

    /// Resolves `{ ... || ... }` and returns the type that stands for the first overload.
    fn compound(&mut self, compound: &CompoundDef, name: &Ident) -> TypeId {
        let extended = compound.extends.map(|dots| self.extended(name, dots));
        let mut ids: Vec<BodyId> = Vec::new();
        for body in &compound.bodies {
            let body = self.body(body, &name.text);
            self.program.bodies.push(body);
            ids.push(self.program.bodies.len() - 1);
        }
        let mut next = extended;
        for &body in ids.iter().rev() {
            self.program.bodies[body].next = next;
            next = Some(self.new_type(Type::Compound(body)));
        }
        next.unwrap_or_else(|| self.new_type(Type::Broken))
    }

    /// What `...` stands for: the meaning that the class name had so far.
    fn extended(&mut self, name: &Ident, dots: Span) -> TypeId {
        if let Some(&id) = self.types.get(&name.text) {
            self.used_types.insert(id);
            return id;
        }
        if !name.text.is_empty() && (self.known.is_empty() || self.known.contains(name.text.as_str())) {
            return self.primitive(&name.text);
        }
        let what = format!("cannot extend unknown element class '{}'", name.text);
        let label =
            if name.text.is_empty() { "this compound has no name" } else { "no class of that name yet" };
        self.sink.push(Diagnostic::error("E0406", what).at(dots).label(label));
        self.new_type(Type::Broken)
    }

    fn body(&mut self, def: &BodyDef, name: &str) -> Body {
        let hidden = self.hidden.len();
        self.builders.push(Builder::new(name, def.span, self.builders.len()));
        self.parameters(def);
        self.statements(&def.statements);
        let body = self.finish_body();
        for (name, before) in self.hidden.split_off(hidden).into_iter().rev() {
            match before {
                Some(id) => self.types.insert(name, id),
                None => self.types.remove(&name),
            };
        }
        body
    }

    fn parameters(&mut self, def: &BodyDef) {
        let mut list: Vec<Parameter> = Vec::new();
        let mut out_of_order = false;
        for formal in &def.formals {
            let keyword = formal.keyword.as_ref().map_or("", |k| &k.text);
            if let Some(first) = list.iter().find(|p| p.name == formal.name.text) {
                let what = format!("parameter '${}' multiply defined", formal.name.text);
                self.sink.push(
                    Diagnostic::error("E0408", what).at(formal.name.span).note(first.span, "first here"),
                );
                continue;
            }
            if let Some(first) = list.iter().find(|p| !keyword.is_empty() && p.keyword == keyword) {
                let what = format!("repeated keyword parameter '{keyword}' in compound element");
                self.sink.push(
                    Diagnostic::error("E0408", what).at(formal.name.span).note(first.span, "first here"),
                );
            }
            let before = list.last().map_or("", |p| &p.keyword);
            if !out_of_order && (before == "__REST__" || (keyword.is_empty() && !before.is_empty())) {
                out_of_order = true;
                self.sink.push(
                    Diagnostic::error("E0408", "compound element parameters out of order")
                        .at(formal.name.span)
                        .help("the order is positional parameters, then keywords, then __REST__"),
                );
            }
            list.push(Parameter {
                name: formal.name.text.clone(),
                keyword: keyword.to_string(),
                span: formal.name.span,
                used: false,
            });
        }
        self.here().body.parameters = list;
    }

    /// Closes the innermost body: checks its ports and settles the names of its anonymous elements.
    fn finish_body(&mut self) -> Body {
        let mut builder = self.builders.pop().expect("a body is open");
        if let Some(&pair) = builder.pseudo.first() {
            let name = if builder.body.name.is_empty() { "<anonymous>" } else { &builder.body.name };
            check_pseudo(self.sink, &builder, pair, name, builder.body.span);
            builder.body.ports = [builder.body.slots[pair[0]].ports[1], builder.body.slots[pair[1]].ports[0]];
        }
        for i in 0..builder.body.slots.len() {
            if builder.body.slots[i].anonymous {
                let name = free_name(&builder.names, &builder.body.slots[i].name);
                builder.names.insert(name.clone(), i);
                builder.body.slots[i].name = name;
            }
        }
        builder.body
    }

    // ---- chains ----

    fn chain(&mut self, chain: &Chain) {
        let mut left: Option<Vec<End>> = None;
        for (i, set) in chain.sets.iter().enumerate() {
            let (inputs, outputs) = self.item_list(set, chain.spread);
            match (left.replace(outputs), i.checked_sub(1).and_then(|i| chain.links.get(i))) {
                (Some(left), Some(link)) => self.join(&left, &inputs, *link),
                _ => self.ignored(
                    set.iter().find_map(|i| i.inputs.as_ref()),
                    "input ports ignored at start of chain",
                ),
            }
        }
        let last = chain.sets.last().and_then(|set| set.iter().find_map(|i| i.outputs.as_ref()));
        self.ignored(last, "output ports ignored at end of chain");
    }

    fn ignored(&mut self, ports: Option<&Ports>, message: &str) {
        if let Some(ports) = ports {
            let label = "no arrow joins these ports to anything";
            self.sink.push(Diagnostic::error("E0304", message).at(ports.span).label(label));
        }
    }

    fn join(&mut self, left: &[End], right: &[End], link: Link) {
        let (pairs, problem) = join(left, right, link.double, link.span);
        if let Some(problem) = problem {
            self.sink.push(problem);
        }
        for (from, to) in pairs {
            self.here().connect(from, to, link.span);
        }
    }

    /// The elements of a list, as inputs and as outputs of a connection. Groups and compounds come into being first,
    /// as in Click, which numbers anonymous elements in this order.
    fn item_list(&mut self, items: &[Item], spread: bool) -> (Vec<End>, Vec<End>) {
        let mut prepared: Vec<Prepared> = Vec::with_capacity(items.len());
        for item in items {
            let inner = match &item.what {
                What::Group(statements) => Inner::Group(self.group(statements, item.span)),
                What::Compound(def) => {
                    let anonymous = Ident { text: String::new(), span: def.span };
                    Inner::Compound(self.compound(def, &anonymous))
                }
                What::Name(_) | What::Implicit { .. } => Inner::None,
            };
            let class = item.class.as_ref().map(|class| self.class_ref(class));
            prepared.push(Prepared { inner, class });
        }
        if spread {
            let class = prepared.last().and_then(|p| p.class);
            prepared.iter_mut().for_each(|p| p.class = class);
        }
        let config = if spread { items.last().and_then(|i| i.config.as_ref()) } else { None };
        let mut sides = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (item, prepared) in items.iter().zip(prepared) {
            let slot = self.item(item, &prepared, item.config.as_ref().or(config));
            let end = |ports: &Option<Ports>, implied: &[u32]| match ports {
                Some(p) => End { slot, ports: p.list.clone(), expandable: p.expandable, span: item.span },
                None => End { slot, ports: implied.to_vec(), expandable: false, span: item.span },
            };
            let counts = match prepared.inner {
                Inner::Group((_, counts)) => counts,
                _ => [0, 0],
            };
            let implied = counts.map(|n| (0..n).collect::<Vec<u32>>());
            sides.0.push(end(&item.inputs, &implied[0]));
            sides.1.push(end(&item.outputs, &implied[1]));
        }
        sides
    }

    /// The slot that an item of a list means; declared if need be.
    fn item(&mut self, item: &Item, prepared: &Prepared, config: Option<&Config>) -> usize {
        match (&item.what, &prepared.inner) {
            (What::Implicit { output }, _) => {
                let pair = self.here().pseudo.last().copied();
                match pair {
                    Some(pair) => pair[usize::from(*output)],
                    None => self.broken("input", item.span),
                }
            }
            (_, Inner::Group((slot, _))) => {
                if prepared.class.is_some() {
                    self.named_twice(item.span, "an element group");
                }
                if let Some(config) = config {
                    self.config_ignored(config);
                }
                *slot
            }
            (_, Inner::Compound(id)) => {
                if prepared.class.is_some() {
                    self.named_twice(item.span, "a compound element");
                }
                self.anonymous(*id, "", item.span, config)
            }
            (What::Name(name), Inner::None) => self.named(name, prepared.class, config),
            (What::Group(_) | What::Compound(_), Inner::None) => self.broken("", item.span),
        }
    }

    fn named_twice(&mut self, span: Span, what: &str) {
        self.sink.push(
            Diagnostic::error("E0204", format!("{what} used as element name"))
                .at(span)
                .help("write `name :: { ... }` to name a compound element"),
        );
    }

    fn config_ignored(&mut self, config: &Config) {
        self.sink.push(
            Diagnostic::error("E0206", "configuration string ignored on element reference")
                .at(config.span)
                .label("only a declaration takes a configuration"),
        );
    }

    /// A name in a chain: an element declared before, one declared here, or a class for an anonymous element.
    fn named(&mut self, name: &Ident, class: Option<(TypeId, Span)>, config: Option<&Config>) -> usize {
        let as_class = self.types.get(&name.text).copied();
        if as_class.is_some() || self.known.contains(name.text.as_str()) {
            if class.is_some() {
                self.sink.push(
                    Diagnostic::error("E0204", format!("class '{}' used as element name", name.text))
                        .at(name.span)
                        .help("give the element a name that no class has"),
                );
            }
            let id = as_class.unwrap_or_else(|| self.primitive(&name.text));
            self.used_types.insert(id);
            return self.anonymous(id, &name.text, name.span, config);
        }
        if let Some(slot) = self.here().find(&name.text) {
            if let Some(config) = config {
                self.config_ignored(config);
            }
            if class.is_some() {
                self.redeclared(name, slot);
            }
            return slot;
        }
        if let Some((id, class_span)) = class {
            return self.declare(name, id, class_span, config);
        }
        // Without a list of classes, what looks like a class is taken for one: the engine will know.
        let looks_like_class = config.is_some() || name.text.starts_with(|c: char| c.is_ascii_uppercase());
        if self.known.is_empty() && looks_like_class {
            let id = self.primitive(&name.text);
            return self.anonymous(id, &name.text, name.span, config);
        }
        if let Some(&slot) = self.here().undeclared.get(&name.text) {
            return slot;
        }
        self.undeclared(name);
        let slot = self.broken(&name.text, name.span);
        self.here().undeclared.insert(name.text.clone(), slot);
        slot
    }

    fn redeclared(&mut self, name: &Ident, slot: usize) {
        let before = &self.here().body.slots[slot];
        let (kind, span) = (before.kind, before.span);
        let mut diagnostic =
            Diagnostic::error("E0202", format!("redeclaration of element '{}'", name.text)).at(name.span);
        diagnostic = if matches!(kind, SlotKind::Element(_)) {
            diagnostic.note(span, format!("element '{}' previously declared here", name.text))
        } else {
            diagnostic.label("here this name stands for the connections from or to the outside")
        };
        self.sink.push(diagnostic);
    }

    fn undeclared(&mut self, name: &Ident) {
        let mut diagnostic =
            Diagnostic::error("E0201", format!("undeclared element '{}'", name.text)).at(name.span);
        let outside =
            self.builders.iter().rev().skip(1).find_map(|b| b.names.get(&name.text).map(|&i| (b, i)));
        if let Some((builder, slot)) = outside {
            diagnostic = diagnostic
                .label("not known in this compound element")
                .note(builder.body.slots[slot].span, "declared outside, here")
                .help("a compound reaches the outside only through `input` and `output`");
        } else if matches!(name.text.as_str(), "input" | "output") {
            diagnostic = diagnostic.help("`input` and `output` exist only inside `{ ... }` and `( ... )`");
        } else {
            diagnostic = diagnostic.label("neither an element nor a class has this name");
            if self.sink.may_suggest() {
                let here = self.builders.last().into_iter().flat_map(|b| b.names.keys());
                let known = self.known.iter().copied();
                let all = here.chain(self.types.keys()).map(String::as_str).chain(known);
                diagnostic = diagnostic.did_you_mean(suggest(&name.text, all));
            }
        }
        self.sink.push(diagnostic);
    }

    /// A slot that stands in for something wrong.
    fn broken(&mut self, name: &str, span: Span) -> usize {
        let id = self.new_type(Type::Broken);
        self.here().add(name.to_string(), SlotKind::Element(id), span)
    }

    fn anonymous(&mut self, id: TypeId, class: &str, span: Span, config: Option<&Config>) -> usize {
        let name = self.here().anonymous_name(class);
        let slot = self.here().add(name, SlotKind::Element(id), span);
        let new = &mut self.here().body.slots[slot];
        new.anonymous = true;
        set_config(new, config);
        slot
    }

    fn declare(&mut self, name: &Ident, id: TypeId, class_span: Span, config: Option<&Config>) -> usize {
        if name.text.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            self.sink.push(
                Diagnostic::error("E0205", format!("element name '{}' has all-digit component", name.text))
                    .at(name.span)
                    .help("names of digits alone would be taken for numbers; add a letter"),
            );
        }
        let slot = self.here().add(name.text.clone(), SlotKind::Element(id), name.span);
        self.here().names.insert(name.text.clone(), slot);
        let new = &mut self.here().body.slots[slot];
        new.class_span = class_span;
        set_config(new, config);
        slot
    }

    /// Resolves a group: its slot, and how many inputs and outputs it has.
    fn group(&mut self, statements: &[Stmt], span: Span) -> (usize, [u32; 2]) {
        let builder = self.here();
        let slot = builder.add("group".into(), SlotKind::Group, span);
        let pair = builder.add_pseudo(span);
        builder.pseudo.push(pair);
        self.statements(statements);
        let builder = self.builders.last_mut().expect("the file's own body is always open");
        builder.pseudo.pop();
        check_pseudo(self.sink, builder, pair, "<anonymous group>", span);
        (slot, [builder.body.slots[pair[0]].ports[1], builder.body.slots[pair[1]].ports[0]])
    }

    // ---- define and require ----

    /// The place of an argument; of the whole string if line directives were taken out of it.
    fn arg_span(&self, config: &Config, arg: &Arg) -> Span {
        let start = config.span.start + arg.start as u32;
        let span = Span { start, end: start + arg.text.len() as u32, ..config.span };
        if self.sources.snippet(span) == arg.text { span } else { config.span }
    }

    fn define(&mut self, config: &Config) {
        for arg in split_args(&config.text).iter().filter(|a| !a.text.is_empty()) {
            let span = self.arg_span(config, arg);
            let (variable, value) = shift_word(&arg.text);
            let name = variable.strip_prefix('$').unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                self.sink.push(
                    Diagnostic::error("E0501", "bad 'define' declaration: not a variable")
                        .at(span)
                        .label(format!("`{variable}` is not a variable"))
                        .help("write `define($NAME value, ...)`"),
                );
                continue;
            }
            let body = &mut self.here().body;
            let parameter = body.parameters.iter().find(|p| p.name == name).map(|p| p.span);
            let first = parameter.or_else(|| body.defines.iter().find(|d| d.name == name).map(|d| d.span));
            match first {
                Some(first) => self.sink.push(
                    Diagnostic::error("E0502", format!("parameter '${name}' multiply defined"))
                        .at(span)
                        .note(first, "first here"),
                ),
                None => {
                    body.defines.push(Definition { name: name.to_string(), value: value.to_string(), span })
                }
            }
        }
    }

    fn require(&mut self, config: &Config) {
        for arg in split_args(&config.text) {
            let span = self.arg_span(config, &arg);
            let words = split_words(&arg.text);
            let kind = words.first().map(|w| unquote_string(w)).unwrap_or_default();
            match (kind.as_str(), words.as_slice()) {
                (_, []) => {}
                ("compact_config", [_]) => self.requirement("compact_config", String::new(), span),
                ("package", [_, value]) => self.requirement("package", unquote_string(value), span),
                ("library", [_, value]) => self.library(&unquote_string(value), span),
                (value, [_]) if !value.is_empty() && value != "package" && value != "library" => {
                    self.requirement("package", kind, span);
                }
                _ => self.sink.push(Diagnostic::error("E0504", "syntax error at requirement").at(span).help(
                    "write `require(package NAME)`, `require(library FILE)` or `require(compact_config)`",
                )),
            }
        }
    }

    fn requirement(&mut self, kind: &str, value: String, span: Span) {
        self.requirements.push(Requirement { kind: kind.to_string(), value, span });
    }

    fn library(&mut self, name: &str, span: Span) {
        if self.builders.len() > 1 {
            let message = "'require library' must be used at file scope";
            self.sink.push(
                Diagnostic::error("E0503", message).at(span).help("move it out of the compound element"),
            );
            return;
        }
        let found = library::find(name, self.sources.name(span.file), &self.options.search_path);
        let path = match found {
            Ok(path) => path,
            Err(tried) => {
                let mut diagnostic =
                    Diagnostic::error("E0503", format!("library '{name}' not found in CLICKPATH/conf"))
                        .at(span);
                for path in tried {
                    diagnostic = diagnostic.note(None, format!("looked for {}", path.display()));
                }
                self.sink.push(diagnostic.help("set CLICKPATH, or give the path of the library"));
                self.sink.names_missing = true;
                return;
            }
        };
        if !self.libraries.insert(library::identity(&path)) {
            return;
        }
        if self.library_depth >= MAX_LIBRARY_DEPTH {
            let message = format!("libraries require each other more than {MAX_LIBRARY_DEPTH} levels deep");
            self.sink.push(Diagnostic::error("E0503", message).at(span));
            return;
        }
        match library::read(&path) {
            Ok(text) => {
                let file = self.sources.add(&path.display().to_string(), &text);
                let statements = crate::parser::parse(self.sources, self.sink, file);
                self.library_depth += 1;
                self.statements(&statements);
                self.library_depth -= 1;
            }
            Err(error) => {
                self.sink.push(Diagnostic::error("E0503", format!("{}: {error}", path.display())).at(span));
                self.sink.names_missing = true;
            }
        }
    }
}

/// What was made of an item before its name is looked up.
struct Prepared {
    inner: Inner,
    class: Option<(TypeId, Span)>,
}

enum Inner {
    None,
    Group((usize, [u32; 2])),
    Compound(TypeId),
}

fn set_config(slot: &mut Slot, config: Option<&Config>) {
    if let Some(config) = config {
        slot.config.clone_from(&config.text);
        slot.config_span = Some(config.span);
    }
}

/// The name for an anonymous element: the one made up for it, with a higher number if that's taken.
fn free_name(taken: &HashMap<String, usize>, name: &str) -> String {
    if !taken.contains_key(name) {
        return name.to_string();
    }
    let (prefix, number) = name.rsplit_once('@').unwrap_or((name, "0"));
    let mut number: usize = number.parse().unwrap_or(0);
    loop {
        number += 1;
        let name = format!("{prefix}@{number}");
        if !taken.contains_key(&name) {
            return name;
        }
    }
}

/// Checks that `input` and `output` are used on their inner sides only, with no port left out.
fn check_pseudo(sink: &mut Sink, builder: &Builder, pair: [usize; 2], name: &str, span: Span) {
    for (k, slot) in pair.into_iter().enumerate() {
        let (me, other) = if k == 0 { ("input", "output") } else { ("output", "input") };
        let Some((ports, misuse)) = builder.pseudo_use.get(&slot) else { continue };
        if let Some(place) = misuse {
            sink.push(
                Diagnostic::error(
                    "E0401",
                    format!("'{name}' pseudoelement '{me}' may only be used as {other}"),
                )
                .at(*place)
                .label(format!("`{me}` cannot stand on this side of an arrow")),
            );
        }
        let mut expected = 0;
        for &port in ports {
            if port > expected {
                let missing = if port == expected + 1 {
                    expected.to_string()
                } else {
                    format!("{expected}-{}", port - 1)
                };
                sink.push(
                    Diagnostic::error("E0402", format!("'{name}' {me} {missing} missing"))
                        .at(span)
                        .label(format!("{me} {port} is used, so those below it must be too")),
                );
            }
            expected = port + 1;
        }
    }
}
