// SPDX-License-Identifier: MIT OR Apache-2.0
//! Element classes: what a class name means at a place, and the bodies of those that the configuration defines.

use super::Resolver;
use super::builder::{Builder, check_pseudo, free_name};
use crate::ast::{BodyDef, ClassDef, ClassRef, CompoundDef, Ident};
use crate::diagnostic::Diagnostic;
use crate::program::{Body, BodyId, Parameter, Type, TypeId};
use crate::source::Span;
use crate::suggest::suggest;
use crate::text::Text;

impl Resolver<'_> {
    pub(super) fn new_type(&mut self, kind: Type) -> TypeId {
        self.program.types.push(kind);
        self.program.types.len() - 1
    }

    pub(super) fn set_type(&mut self, name: &str, id: TypeId) {
        let before = self.types.insert(name.into(), id);
        self.hidden.push((name.into(), before));
    }

    pub(super) fn primitive(&mut self, name: &str) -> TypeId {
        if let Some(&id) = self.primitives.get(name) {
            return id;
        }
        let id = self.new_type(Type::Primitive(name.into()));
        self.primitives.insert(name.into(), id);
        id
    }

    /// The type of a name that must be a class.
    pub(super) fn class_named(&mut self, name: &Ident) -> TypeId {
        if let Some(&id) = self.types.get(name.text.as_str()) {
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
        let known = self.known.iter().copied().chain(self.types.keys().map(Text::as_str));
        suggest(name, known).map(str::to_string)
    }

    pub(super) fn class_def(&mut self, class: &ClassDef) {
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

    pub(super) fn class_ref(&mut self, class: &ClassRef) -> (TypeId, Span) {
        match class {
            ClassRef::Named(name) => (self.class_named(name), name.span),
            ClassRef::Compound(compound) => {
                let anonymous = Ident { text: Text::default(), span: compound.span };
                (self.compound(compound, &anonymous), compound.span)
            }
        }
    }

    /// Resolves `{ ... || ... }` and returns the type that stands for the first overload.
    pub(super) fn compound(&mut self, compound: &CompoundDef, name: &Ident) -> TypeId {
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
        if let Some(&id) = self.types.get(name.text.as_str()) {
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

    pub(super) fn body(&mut self, def: &BodyDef, name: &str) -> Body {
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
            let keyword = formal.keyword.as_ref().map_or("", |k| k.text.as_str());
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
                name: formal.name.text.to_string(),
                keyword: keyword.to_string(),
                span: formal.name.span,
                used: false,
            });
        }
        self.here().body.parameters = list;
    }

    /// Closes the innermost body: checks its ports and settles the names of its anonymous elements.
    pub(super) fn finish_body(&mut self) -> Body {
        let mut builder = self.builders.pop().expect("a body is open");
        self.report_undeclared(&builder);
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
}
