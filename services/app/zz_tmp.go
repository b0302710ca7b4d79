package app

import "context"

func startCorrelator(context.Context, *App) error { return nil }
func startNotifier(context.Context, *App) error   { return nil }
func startIngest(context.Context, *App) error     { return nil }
