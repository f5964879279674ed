//! A user's own model file (TOML), which wins over every list.
//!
//! Read by the edges at start. It may add models, correct known ones field by field, and map deployment names to
//! models. A file with any error changes nothing.

use super::family::Families;
use super::name::Key;
use super::table::{Layer, Models, blank};
use crate::error::{Error, Result};
use crate::limits::MAX_WINDOW_TOKENS;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    models: BTreeMap<String, Fields>,
    #[serde(default)]
    deployments: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// Start from this model instead of from the one that the name itself finds.
    like: Option<String>,
    window: Option<u64>,
    input_cap: Option<u64>,
    output_cap: Option<u64>,
    tokenizer: Option<String>,
    renderer: Option<String>,
    image_rule: Option<String>,
    reasoning: Option<bool>,
    maker: Option<String>,
    notes: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
}

impl Models {
    /// Applies a user's override file.
    ///
    /// ```
    /// let mut models = plimsoll::Models::builtin().as_ref().clone();
    /// models.override_toml(r#"
    ///     [models."house-model"]
    ///     like = "gpt-4o"
    ///     window = 32768
    ///     [deployments]
    ///     "azure/prod-chat" = "gpt-5-mini"
    /// "#)?;
    /// assert_eq!(models.find("house-model", None)?.window, Some(32_768));
    /// assert_eq!(models.find("prod-chat", Some(&plimsoll::Provider::Azure))?.id, "gpt-5-mini");
    /// # Ok::<(), plimsoll::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Kind::InvalidInput`] with the byte offset of broken TOML or an unknown field, or with the place
    /// (`/models/NAME/FIELD`, `/deployments/NAME`) of a value that can't hold; [`crate::Kind::UnknownModel`] where `like` or a
    /// deployment names no known model. Then nothing is changed.
    pub fn override_toml(&mut self, text: &str) -> Result<()> {
        let file: File = toml::from_str(text).map_err(|e| {
            let error = Error::invalid("", format!("the override file does not read: {}", e.message()));
            e.span().map_or(Error::invalid("", format!("the override file does not read: {}", e.message())), |span| {
                error.at_offset(span.start as u64)
            })
        })?;
        let mut changed = self.clone();
        for (name, fields) in &file.models {
            changed.override_one(name, fields)?;
        }
        for (deployment, model) in &file.deployments {
            changed.deploy(deployment, model).map_err(|e| e.at(place(&["deployments", deployment])))?;
        }
        *self = changed;
        Ok(())
    }

    fn override_one(&mut self, name: &str, fields: &Fields) -> Result<()> {
        for (field, value) in [("window", fields.window), ("input_cap", fields.input_cap), ("output_cap", fields.output_cap)] {
            if value.is_some_and(|n| n == 0 || n > MAX_WINDOW_TOKENS) {
                return Err(Error::invalid(place(&["models", name, field]), "expected a number of tokens from 1 to 2^40"));
            }
        }
        if Key::new(name).len() == 0 {
            return Err(Error::invalid(place(&["models", name]), "expected a model's name"));
        }
        let families = Families::builtin();
        let mut profile = match &fields.like {
            Some(like) => self.find(like, None).map_err(|e| e.at(place(&["models", name, "like"])))?.as_ref().clone(),
            None => match self.lookup(name, None) {
                Some(entry) => entry.profile.as_ref().clone(),
                None => blank(name, families.of(&Key::new(name)).unwrap_or_else(|| families.rest())),
            },
        };
        name.clone_into(&mut profile.id);
        profile.window = fields.window.or(profile.window);
        profile.input_cap = fields.input_cap.or(profile.input_cap);
        profile.output_cap = fields.output_cap.or(profile.output_cap);
        profile.reasoning = fields.reasoning.unwrap_or(profile.reasoning);
        if let Some(tokenizer) = &fields.tokenizer {
            tokenizer.clone_into(&mut profile.tokenizer);
            profile.proxy = false;
        }
        for (given, field) in [(&fields.renderer, &mut profile.renderer), (&fields.maker, &mut profile.maker)] {
            if let Some(given) = given {
                given.clone_into(field);
            }
        }
        profile.image_rule = fields.image_rule.clone().or(profile.image_rule);
        profile.notes = fields.notes.clone().or(profile.notes);
        "the user's override file".clone_into(&mut profile.source);
        self.add(profile, Layer::Override, fields.aliases.iter().map(String::as_str));
        Ok(())
    }
}

fn place(steps: &[&str]) -> String {
    steps.iter().fold(String::new(), |path, step| path + "/" + &step.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Provider};

    #[test]
    fn corrects_a_known_model_field_by_field() {
        let mut models = Models::checked_only();
        models.override_toml("[models.gpt-4o]\noutput_cap = 5\n[models.tiny]\nwindow = 10\naliases = [\"gpt-4o-mini\"]\n").unwrap();
        let model = models.find("openai/gpt-4o", None).unwrap();
        assert_eq!((model.window, model.output_cap, model.renderer.as_str()), (Some(128_000), Some(5), "openai-classic"));
        assert_eq!(models.find("gpt-4o-2024-11-20", None).unwrap().output_cap, Some(5), "dated names follow");
        assert_eq!(models.find("gpt-4o-mini", None).unwrap().id, "tiny", "an alias of the user's wins over a list's id");
    }

    #[test]
    fn deployments_by_host_and_by_name() {
        let mut models = Models::checked_only();
        models.override_toml("[deployments]\n\"azure/Chat\" = \"gpt-5-mini\"\nchat2 = \"o3\"\n").unwrap();
        assert_eq!(models.find("chat", Some(&Provider::Azure)).unwrap().id, "gpt-5-mini");
        assert!(models.find("chat", None).is_err());
        assert_eq!(models.find("azure/chat", None).unwrap().id, "gpt-5-mini");
        assert_eq!(models.find("CHAT2", None).unwrap().id, "o3");
    }

    #[test]
    fn bad_files_are_errors_with_a_place_and_change_nothing() {
        let mut models = Models::checked_only();
        let before = models.list().count();
        for (text, kind, path) in [
            ("[models.a", Kind::InvalidInput, ""),
            ("[models.a]\nwindow = \"x\"", Kind::InvalidInput, ""),
            ("[models.a]\nwidnow = 1", Kind::InvalidInput, ""),
            ("[models.b]\nwindow = 5\n[models.\"c/d\"]\nwindow = 0", Kind::InvalidInput, "/models/c~1d/window"),
            ("[models.a]\nlike = \"gpt-9000-x\"", Kind::UnknownModel, "/models/a/like"),
            ("[models.b]\nwindow = 5\n[deployments]\nx = \"nothing-like-it\"", Kind::UnknownModel, "/deployments/x"),
        ] {
            let error = models.override_toml(text).unwrap_err();
            assert_eq!((error.kind(), error.path()), (kind, Some(path)), "{text}: {error}");
        }
        assert_eq!(models.list().count(), before);
    }
}
