package config

import (
	"strconv"
	"strings"

	"achbridge/bridge/rule"
)

// schema is a part of a JSON schema, with which editors complete and check the
// configuration file. The test writes the schema to achbridge.schema.json; the program
// itself does not need it.
type schema map[string]any

// fileSchema returns the schema of the configuration file. It is made from the tables with
// which the program reads the file. It checks less than `achbridge check`: most texts are
// not restricted.
func fileSchema() schema {
	keys := schema{}
	for _, k := range configKeys {
		var s schema
		switch k.kind {
		case oneValue:
			s = scalarSchema(k.words, k.example)
		case aList:
			s = schema{"type": "array", "items": scalarSchema(nil, k.example)}
		case aMap:
			file := scalarSchema(nil, k.example)
			s = schema{"type": "object", "additionalProperties": schema{"anyOf": []schema{
				file, {"type": "array", "items": file, "minItems": 1}, {"type": "object", "additionalProperties": file, "minProperties": 1},
			}}}
		default:
			rules := ruleSchema(k.name)
			s = schema{"type": "array", "items": schema{"anyOf": []schema{scalarSchema(nil, k.example), rules}}}
			if k.name == "record.when" {
				s = schema{"anyOf": []schema{s, rules}}
			}
		}
		s["description"] = k.doc
		section := k.section()
		if section == "" {
			keys[k.name] = s
			continue
		}
		if keys[section] == nil {
			keys[section] = schema{"type": "object", "properties": schema{}, "additionalProperties": false}
		}
		keys[section].(schema)["properties"].(schema)[strings.TrimPrefix(k.name, section+".")] = s
	}
	return schema{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "Configuration of achbridge", "type": []string{"object", "null"},
		"properties": keys, "additionalProperties": false,
	}
}

func ruleSchema(list string) schema {
	keys := schema{}
	for _, k := range ruleKeysOf(list) {
		s := scalarSchema(k.words, k.example)
		if k.many {
			s = schema{"anyOf": []schema{s, {"type": "array", "items": s, "minItems": 1}}}
		}
		s["description"] = k.doc
		keys[k.name] = s
	}
	whole := schema{"type": "object", "properties": keys, "additionalProperties": false}
	needs := []string{"match"}
	switch list {
	case "merge":
		whole["required"] = needs
		return whole
	case "mux":
		whole["required"] = []string{"output", "inputs"}
		return whole
	case "channels":
		whole["required"] = []string{"name"}
		return whole
	case "record.when":
		whole["required"] = []string{"channel", "field"}
		whole["oneOf"] = []schema{{"required": []string{"above"}}, {"required": []string{"below"}}}
		return whole
	case "push":
		needs = append(needs, "hosts")
	}
	whole["oneOf"] = []schema{{"required": needs}, {"required": []string{"deny"}}}
	return whole
}

// scalarSchema returns the schema of one value. Words that are numbers may be written without quotes.
func scalarSchema(words []string, example string) schema {
	switch {
	case words == nil:
		return schema{"type": []string{"string", "number"}, "examples": []string{example}}
	case strings.Join(words, "") == "01234567":
		return schema{"type": "integer", "minimum": 0, "maximum": 7}
	case rule.IsSwitch(words):
		return schema{"type": "boolean"}
	}
	return schema{"enum": valuesOf(words)}
}

// valuesOf returns words as YAML reads them: true and false without quotes are no text.
func valuesOf(words []string) (values []any) {
	for _, word := range words {
		if b, err := strconv.ParseBool(word); err == nil {
			values = append(values, b)
		} else {
			values = append(values, word)
		}
	}
	return values
}
